package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/logging"
)

// Entries of maps expire by a change like any other. Each shard has a list of the maps that need a look, with the time
// of each look. In every Config.MapExpiryInterval, each node with maps claims the maps whose time has come, removes the
// expired entries, and sets the time of the next look. If the node dies, another one may claim the map after claimTime.
//
// The list may be on another node of a Cluster than the map, so both cannot change in one step. Therefore a node
// registers the maps that it changed once more an interval later. A look ends with the removal of the map from the list
// only if no node has registered the map since the look began.

const (
	claimTime            = 5 * time.Second
	claimBatch, dueBatch = 64, 256
	lookLists            = 16
)

type looks struct {
	mu      sync.Mutex
	running bool
	maps    map[string]look // changed since the last round
	outage  logging.Outage
	meter   enginekit.ExpiryMeter
}

// look: due is when the first of the keys expires that were set.
type look struct {
	shard *shard
	due   time.Time
}

// add reports whether the map must be registered now.
func (l *looks) add(m *mapEntries, s *shard, ch string, ttl time.Duration) bool {
	if m.interval() < 0 {
		return true // this node registers nothing later
	}
	l.begin(m)
	due := time.Now().Add(ttl)
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.maps[ch]; ok && !due.Before(known.due) {
		return false
	}
	if l.maps == nil {
		l.maps = make(map[string]look)
	}
	l.maps[strings.Clone(ch)] = look{s, due}
	return true
}

func (m *mapEntries) Expiry() broker.Expiry { return m.looks.meter.Expiry() }

// begin starts the rounds, which end with the broker.
func (l *looks) begin(m *mapEntries) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && m.interval() > 0 {
		l.running = true
		b := m.broker
		b.background.Go(func() { enginekit.Every(b.lifetime, m.interval(), func() { m.round(b.lifetime) }) })
	}
}

func (m *mapEntries) round(ctx context.Context) {
	began, shards := time.Now(), m.broker.shards
	failures := make([]error, len(shards)+1)
	failures[len(shards)] = m.registerChanged(ctx)
	var group sync.WaitGroup
	for i, s := range shards {
		group.Go(func() {
			for list := range lookListsOf(s) {
				if failures[i] = m.lookAt(ctx, s, s.names.Looks(list)); failures[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	err := errors.Join(failures...)
	if ctx.Err() != nil {
		return
	}
	m.looks.meter.Looked(began, err)
	if err == nil {
		m.looks.outage.End()
	} else if m.looks.outage.Fail(err) == 1 {
		m.broker.engine.cfg.Logger.Warn("redis: entries of maps do not expire; trying again", "interval_ms", m.interval().Milliseconds(), "error", err)
	}
}

// registerChanged leaves the maps to the next round if it fails.
func (m *mapEntries) registerChanged(ctx context.Context) error {
	m.looks.mu.Lock()
	changed := m.looks.maps
	m.looks.maps = nil
	m.looks.mu.Unlock()
	text := commands.NewStrings(commands.MaxChunk)
	calls := make(map[*shard][]commands.Call)
	for ch, l := range changed {
		var c commands.Call
		registerCall(&c, l.shard, &text, ch, format.Hash(ch), time.Until(l.due))
		calls[l.shard] = append(calls[l.shard], c)
	}
	var failures []error
	for s, list := range calls {
		failures = append(failures, runAll(ctx, s, list))
	}
	err := errors.Join(failures...)
	if err != nil {
		m.looks.giveBack(changed)
	}
	return err
}

// giveBack keeps the earlier one of two looks at a map.
func (l *looks) giveBack(failed map[string]look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch, since := range l.maps {
		if known, ok := failed[ch]; !ok || since.due.Before(known.due) {
			failed[ch] = since
		}
	}
	l.maps = failed
}

func runAll(ctx context.Context, s *shard, calls []commands.Call) error {
	for len(calls) > 0 {
		n := min(len(calls), servers.MaxPipeline)
		answers, _ := commands.RunAll(ctx, s.client, calls[:n], nil)
		for i := range answers {
			if err := answers[i].Error(); err != nil {
				return s.client.Explain(err)
			}
		}
		calls = calls[n:]
	}
	return nil
}

// registerCall needs a zero c.
func registerCall(c *commands.Call, s *shard, text *commands.Strings, ch string, hash uint64, after time.Duration) {
	c.Script = commands.Register
	c.Key(s.names.Looks(int(hash % uint64(lookListsOf(s)))))
	c.Arg(ch, text.Milliseconds(after))
}

func lookListsOf(s *shard) int {
	if s.names.Cluster {
		return lookLists
	}
	return 1
}

func (m *mapEntries) lookAt(ctx context.Context, s *shard, list string) error {
	for {
		c := commands.Call{Script: commands.Claim}
		c.Key(list)
		c.Arg(strconv.Itoa(claimBatch), strconv.FormatInt(claimTime.Milliseconds(), 10))
		answer, err := commands.Run(ctx, s.client, &c)
		if err != nil {
			return err
		}
		texts, err := answer.AsStrSlice()
		if err != nil || len(texts) == 0 {
			return s.client.Explain(err)
		}
		for _, ch := range texts[1:] {
			if err := m.look(ctx, s, list, ch, texts[0]); err != nil {
				return err
			}
		}
		if len(texts) <= claimBatch {
			return nil
		}
	}
}

func (m *mapEntries) look(ctx context.Context, s *shard, list, ch, claim string) error {
	hash := format.Hash(ch)
	for {
		text := commands.NewStrings(1024)
		c := commands.Call{Script: commands.Due}
		c.Key(text.Name(&s.names, format.StreamMeta, ch, hash), text.Name(&s.names, format.MapDues, ch, hash))
		c.Arg(strconv.Itoa(dueBatch))
		answer, err := commands.Run(ctx, s.client, &c)
		if err != nil {
			return err
		}
		settings, next, due, err := commands.ReadDue(answer)
		if err != nil {
			return s.client.Explain(err)
		}
		if err := m.expire(ctx, s, ch, hash, &settings, due); err != nil {
			return err
		}
		if len(due) == dueBatch {
			continue
		}
		end := commands.Call{Script: commands.EndLook}
		end.Key(list)
		end.Arg(ch, claim, next)
		_, err = commands.Run(ctx, s.client, &end)
		return err
	}
}

func (m *mapEntries) expire(ctx context.Context, s *shard, ch string, hash uint64, o *channel.MapOptions, due []string) error {
	if len(due) == 0 {
		return nil
	}
	text := commands.NewStrings(commands.MaxChunk)
	calls := make([]commands.Call, len(due))
	changes := make([]changing, len(due))
	for i, key := range due {
		changes[i] = changing{ch, hash, changeExpire, &channel.Publication{Key: key, Removed: true}}
		m.changeCall(&calls[i], s, &text, changes[i], o)
	}
	answers, _ := commands.RunAll(ctx, s.client, calls, nil)
	for i := range answers {
		result, current, err := commands.ReadChange(answers[i])
		if err == nil {
			var done channel.MapResult
			done, err = m.changed(s, changes[i], result, current, "", o.Ephemeral())
			if done.Suppressed == "" {
				m.looks.meter.Removed(1)
			}
		}
		if err != nil {
			return s.client.Explain(err)
		}
	}
	return nil
}
