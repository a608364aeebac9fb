package redis

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/channel"
)

// Presence is the presence manager of an Engine, while that is connected. It uses the clock of Redis, so the clocks of
// nodes may differ.
type Presence struct {
	engine  *Engine
	scripts *commands.PresenceScripts
	ttl     string
}

var _ broker.PresenceManager = (*Presence)(nil)

func newPresence(e *Engine) *Presence {
	var text commands.Strings
	p := &Presence{engine: e, scripts: &commands.SetPresence, ttl: text.Milliseconds(e.cfg.PresenceTTL)}
	if e.cfg.PresenceHashFieldTTL {
		p.scripts = &commands.FieldPresence
	}
	return p
}

func (p *Presence) shard(ctx context.Context, ch string) (*shard, error) {
	shards, err := p.engine.live()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := shards[format.Jump(format.Hash(ch), len(shards))]
	return s, s.names.CheckPresence(ch)
}

func (p *Presence) mapped(ch string) bool {
	if which := p.engine.cfg.PresenceUserMappingFor; which != nil {
		return which(ch)
	}
	return p.engine.cfg.PresenceUserMapping
}

func (p *Presence) keys(c *commands.Call, s *shard, ch string) {
	fields := p.engine.cfg.PresenceHashFieldTTL
	c.Key(s.names.Presence(format.Presence, ch))
	if !fields {
		c.Key(s.names.Presence(format.PresenceLife, ch))
	}
	if p.mapped(ch) {
		c.Key(s.names.Presence(format.Users, ch))
		if !fields {
			c.Key(s.names.Presence(format.UsersLife, ch))
		}
	}
}

// Describe implements broker.Engine.
func (p *Presence) Describe() broker.Traits { return broker.Traits{Name: "redis"} }

// Add implements broker.PresenceManager.
func (p *Presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return err
	}
	text := commands.NewStrings(256)
	c := commands.Call{Script: p.scripts.Add}
	s.noteUse()
	p.keys(&c, s, ch)
	c.Arg(p.ttl, info.Client, text.ClientInfo("", info), info.User)
	_, err = commands.Run(ctx, s.client, &c)
	return err
}

// Remove implements broker.PresenceManager.
func (p *Presence) Remove(ctx context.Context, ch, client, _ string) error {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return err
	}
	c := commands.Call{Script: p.scripts.Remove}
	p.keys(&c, s, ch)
	c.Arg(client)
	_, err = commands.Run(ctx, s.client, &c)
	return err
}

// Presence implements broker.PresenceManager.
func (p *Presence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	clients := map[string]*channel.ClientInfo{}
	err := p.each(ctx, ch, func(client string, data []byte) error {
		info := &channel.ClientInfo{}
		clients[client] = info
		return format.ReadClientInfo(data, info)
	})
	if err != nil {
		return nil, err
	}
	return clients, nil
}

// Stats implements broker.PresenceManager. Without user mapping it reads all entries.
func (p *Presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	if p.mapped(ch) {
		return p.counts(ctx, ch)
	}
	var stats broker.PresenceStats
	users := map[string]struct{}{}
	err := p.each(ctx, ch, func(_ string, data []byte) error {
		var info channel.ClientInfo
		err := format.ReadClientInfo(data, &info)
		users[info.User] = struct{}{}
		stats.Clients++
		return err
	})
	if err != nil {
		return broker.PresenceStats{}, err
	}
	stats.Users = len(users)
	return stats, nil
}

func (p *Presence) each(ctx context.Context, ch string, do func(client string, data []byte) error) error {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return err
	}
	if p.engine.cfg.PresenceHashFieldTTL {
		answer := s.client.Read(ctx, s.client.B().Hgetall().Key(s.names.Presence(format.Presence, ch)).Build())
		return s.client.Explain(commands.ReadFields(answer, do))
	}
	c := commands.Call{Script: p.scripts.Get}
	p.keys(&c, s, ch)
	answer, err := commands.Run(ctx, s.client, &c)
	if err != nil {
		return err
	}
	return s.client.Explain(commands.ReadFields(answer, do))
}

func (p *Presence) counts(ctx context.Context, ch string) (stats broker.PresenceStats, err error) {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return stats, err
	}
	if p.engine.cfg.PresenceHashFieldTTL {
		stats.Clients, err = s.fields(ctx, s.names.Presence(format.Presence, ch))
		if err == nil {
			stats.Users, err = s.fields(ctx, s.names.Presence(format.Users, ch))
		}
		return stats, err
	}
	c := commands.Call{Script: p.scripts.Stats}
	p.keys(&c, s, ch)
	answer, err := commands.Run(ctx, s.client, &c)
	if err != nil {
		return stats, err
	}
	stats, err = commands.ReadPresence(answer)
	return stats, s.client.Explain(err)
}

func (s *shard) fields(ctx context.Context, key string) (int, error) {
	n, err := s.client.Read(ctx, s.client.B().Hlen().Key(key).Build()).AsInt64()
	return int(n), s.client.Explain(err)
}
