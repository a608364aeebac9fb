package redis

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/payload"
	"github.com/gyrohq/gyro/channel"
)

// Presence is the presence manager of an Engine (engines.md 8.8). It works while
// the engine is connected. Times are Redis' own, so that clocks of nodes may differ.
type Presence struct {
	engine *Engine
	ttl    string
}

var _ broker.PresenceManager = (*Presence)(nil)

func newPresence(e *Engine) *Presence {
	var m slab
	return &Presence{engine: e, ttl: m.milliseconds(e.cfg.PresenceTTL)}
}

func (p *Presence) shard(ctx context.Context, ch string) (*shard, error) {
	shards, err := p.engine.live()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := shards[jump(hashOf(ch), len(shards))]
	if s.names.cluster && (ch == "" || ch[0] == '}') {
		plain := s.names
		plain.partitions = 0
		return nil, plain.check(ch)
	}
	return s, nil
}

// mapped tells whether the channel's users are counted.
func (p *Presence) mapped(ch string) bool {
	if which := p.engine.cfg.PresenceUserMappingFor; which != nil {
		return which(ch)
	}
	return p.engine.cfg.PresenceUserMapping
}

// keys gives c the keys of a channel, as the script of the engine's mode has them.
func (p *Presence) keys(c *call, s *shard, ch string) {
	fields := p.engine.cfg.PresenceHashFieldTTL
	c.key(s.names.presence(kindPresence, ch))
	if !fields {
		c.key(s.names.presence(kindPresenceLife, ch))
	}
	if p.mapped(ch) {
		c.key(s.names.presence(kindUsers, ch))
		if !fields {
			c.key(s.names.presence(kindUsersLife, ch))
		}
	}
}

// Add implements broker.PresenceManager.
func (p *Presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return err
	}
	m := slab{size: 256}
	c := call{script: presenceAdd}
	if p.engine.cfg.PresenceHashFieldTTL {
		c.script = presenceFieldAdd
	}
	p.keys(&c, s, ch)
	c.arg(p.ttl)
	c.arg(info.Client)
	c.arg(m.info("", info))
	c.arg(info.User)
	_, err = s.run(ctx, &c)
	return err
}

// Remove implements broker.PresenceManager.
func (p *Presence) Remove(ctx context.Context, ch, client, _ string) error {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return err
	}
	c := call{script: presenceRemove}
	if p.engine.cfg.PresenceHashFieldTTL {
		c.script = presenceFieldRemove
	}
	p.keys(&c, s, ch)
	c.arg(client)
	_, err = s.run(ctx, &c)
	return err
}

// Presence implements broker.PresenceManager.
func (p *Presence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	clients := map[string]*channel.ClientInfo{}
	err := p.each(ctx, ch, func(client string, data []byte) error {
		info := &channel.ClientInfo{}
		clients[client] = info
		return payload.ClientInfo(data, info)
	})
	if err != nil {
		return nil, err
	}
	return clients, nil
}

// Stats implements broker.PresenceManager. Without user mapping it reads all
// entries.
func (p *Presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	if p.mapped(ch) {
		return p.counts(ctx, ch)
	}
	var stats broker.PresenceStats
	users := map[string]struct{}{}
	err := p.each(ctx, ch, func(_ string, data []byte) error {
		var info channel.ClientInfo
		err := payload.ClientInfo(data, &info)
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

// each reads the entries of a channel.
func (p *Presence) each(ctx context.Context, ch string, do func(client string, data []byte) error) error {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return err
	}
	if p.engine.cfg.PresenceHashFieldTTL {
		reply := s.client.Read(ctx, s.client.B().Hgetall().Key(s.names.presence(kindPresence, ch)).Build())
		return s.client.Explain(eachEntry(reply, do))
	}
	c := call{script: presenceGet}
	p.keys(&c, s, ch)
	reply, err := s.run(ctx, &c)
	if err != nil {
		return err
	}
	return s.client.Explain(eachEntry(reply, do))
}

// counts reads how many fields the hashes have.
func (p *Presence) counts(ctx context.Context, ch string) (stats broker.PresenceStats, err error) {
	s, err := p.shard(ctx, ch)
	if err != nil {
		return stats, err
	}
	if p.engine.cfg.PresenceHashFieldTTL {
		stats.Clients, err = s.fields(ctx, s.names.presence(kindPresence, ch))
		if err == nil {
			stats.Users, err = s.fields(ctx, s.names.presence(kindUsers, ch))
		}
		return stats, err
	}
	c := call{script: presenceStats}
	p.keys(&c, s, ch)
	reply, err := s.run(ctx, &c)
	if err != nil {
		return stats, err
	}
	numbers, err := reply.AsIntSlice()
	if err == nil && len(numbers) != 2 {
		err = errReply
	}
	if err != nil {
		return stats, s.client.Explain(err)
	}
	return broker.PresenceStats{Clients: int(numbers[0]), Users: int(numbers[1])}, nil
}

// fields counts those of a hash.
func (s *shard) fields(ctx context.Context, key string) (int, error) {
	n, err := s.client.Read(ctx, s.client.B().Hlen().Key(key).Build()).AsInt64()
	return int(n), s.client.Explain(err)
}

// eachEntry goes through a reply of HGETALL: a map, or keys and values in turns,
// which scripts return.
func eachEntry(reply rueidis.RedisResult, do func(client string, data []byte) error) error {
	message, err := reply.ToMessage()
	if err != nil {
		return err
	}
	if message.IsMap() {
		entries, err := message.ToMap()
		if err != nil {
			return errReply
		}
		for client, entry := range entries {
			if err := doEntry(client, &entry, do); err != nil {
				return err
			}
		}
		return nil
	}
	entries, err := message.ToArray()
	if err != nil {
		return errReply
	}
	for i := 0; i+1 < len(entries); i += 2 {
		client, err := entries[i].ToString()
		if err != nil {
			return errReply
		}
		if err := doEntry(client, &entries[i+1], do); err != nil {
			return err
		}
	}
	return nil
}

func doEntry(client string, entry *rueidis.RedisMessage, do func(client string, data []byte) error) error {
	data, err := entry.AsBytes()
	if err != nil {
		return errReply
	}
	return do(client, data)
}
