package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/gyrohq/gyro/broker/redis/internal/conn"
	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/reply"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
	"github.com/gyrohq/gyro/broker/redis/internal/seen"
	"github.com/gyrohq/gyro/broker/redis/internal/slab"
)

// A failover, or a restart of a server that does not write at once, can lose the
// newest publications of a stream. Its offsets are then given out a second time under
// the same epoch, and who has seen the first would take the second for duplicates. So
// before anything is read from a server that may hold other data than the one before
// (conn.Client.Generation), the node compares what it delivered last of each channel,
// and what its own publishes had acknowledged last, with what the stream has there. A stream that holds something else, or less, gets
// another epoch: that ends every position in it, whoever has one.

// settled tells for which generation of a shard that has been done.
type settled struct {
	generation atomic.Uint64

	mu      sync.Mutex
	running chan struct{} // closed when the comparison under way is done; nil: none is
	err     error         // of the last one
}

var errUnsettled = errors.New("the server is being replaced again and again")

// whenSettled calls read, again if the server turns out to be another one behind it.
func (b *Broker) whenSettled(ctx context.Context, s *shard, read func() error) error {
	const attempts = 3
	for range attempts {
		if err := b.settle(ctx, s); err != nil {
			return err
		}
		err := read()
		if err != nil || s.settled.generation.Load() == s.client.Generation() {
			return err
		}
	}
	return fmt.Errorf("%s: %w", s.client.Name(), errUnsettled)
}

// settleBehind settles the shard when a connection for PUB/SUB has been made, before
// anything is subscribed on it. It closes the connection if it fails.
func (b *Broker) settleBehind(ctx context.Context, l *link, raw net.Conn) error {
	s := l.shard
	// A command first: the connection for commands may not know yet that it is over.
	err := s.client.Explain(s.client.Do(ctx, s.client.B().Ping().Build()).Error())
	if err == nil {
		err = b.settle(ctx, s)
	}
	if err != nil {
		raw.Close()
	}
	return err
}

// settle returns when the streams of the shard are known to hold what was delivered,
// or have other epochs.
func (b *Broker) settle(ctx context.Context, s *shard) error {
	for s.settled.generation.Load() != s.client.Generation() {
		running := b.compare(s)
		select {
		case <-running:
		case <-ctx.Done():
			return fmt.Errorf("%s: streams are being compared: %w", s.client.Name(), ctx.Err())
		}
		s.settled.mu.Lock()
		err := s.settled.err
		s.settled.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// compare starts a comparison, unless one is under way, and returns what is closed at
// its end.
func (b *Broker) compare(s *shard) <-chan struct{} {
	s.settled.mu.Lock()
	defer s.settled.mu.Unlock()
	if s.settled.running != nil {
		return s.settled.running
	}
	running := make(chan struct{})
	if b.lifetime.Err() != nil {
		s.settled.err = errClosed
		close(running)
		return running
	}
	s.settled.running = running
	b.background.Go(func() {
		generation := s.client.Generation()
		err := b.compareAll(b.lifetime, s)
		s.settled.mu.Lock()
		defer s.settled.mu.Unlock()
		if err == nil {
			s.settled.generation.Store(generation)
		}
		s.settled.running, s.settled.err = nil, err
		close(running)
	})
	return running
}

// compareAll compares what all links of the shard have delivered, and what it has
// acknowledged.
func (b *Broker) compareAll(ctx context.Context, s *shard) error {
	last := s.acked.Newest(s.settled.generation.Load())
	for _, l := range b.links[s.index] {
		last = append(last, l.delivered()...)
	}
	for some := range slices.Chunk(last, conn.MaxPipeline) {
		if err := b.compareSome(ctx, s, some); err != nil {
			return err
		}
	}
	return nil
}

// delivered returns what was delivered last, of channels with history.
func (l *link) delivered() []seen.Publication {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []seen.Publication
	for _, sub := range l.channels.All {
		sub.mu.Lock()
		if sub.last.Offset > 0 {
			list = append(list, sub.last)
		}
		sub.mu.Unlock()
	}
	return list
}

// compareSome compares at most conn.MaxPipeline channels.
func (b *Broker) compareSome(ctx context.Context, s *shard, last []seen.Publication) error {
	m := slab.New(slab.Max)
	calls := make([]script.Call, len(last))
	for i := range last {
		c, ch := &calls[i], last[i].Channel
		hash := keys.Hash(ch)
		c.Script = b.kinds.scripts.Entry
		c.Key(m.Name(&s.names, b.kinds.history, ch, hash))
		c.Key(m.Name(&s.names, b.kinds.meta, ch, hash))
		c.Arg(m.Number(last[i].Offset))
	}
	answers, _ := script.RunAll(ctx, s.client, calls, nil)
	var renew []script.Call
	var channels []string
	for i := range last {
		same, err := same(&last[i], &answers[i])
		if err != nil {
			return s.client.Explain(err)
		}
		if same {
			continue
		}
		ch := last[i].Channel
		c := script.Call{Script: script.Renew}
		c.Key(m.Name(&s.names, b.kinds.meta, ch, keys.Hash(ch)))
		c.Arg(last[i].Epoch)
		c.Arg(m.Epoch())
		renew, channels = append(renew, c), append(channels, ch)
	}
	if len(renew) == 0 {
		return nil
	}
	answers, _ = script.RunAll(ctx, s.client, renew, nil)
	for i := range answers {
		if err := answers[i].Error(); err != nil {
			return s.client.Explain(err)
		}
	}
	b.engine.cfg.Logger.Warn("redis lost publications that were delivered or acknowledged; streams have a new epoch",
		"part", s.client.Name(), "channels", len(channels))
	slices.Sort(channels)
	b.handler.HandleLoss(func(ch string) bool {
		_, found := slices.BinarySearch(channels, ch)
		return found
	})
	return nil
}

// same tells whether an answer of entry.lua is of the stream that a publication is of.
// An entry that is there no more proves nothing. A stream of another epoch is
// another, and seen to be.
func same(p *seen.Publication, answer *rueidis.RedisResult) (bool, error) {
	top, entry, err := reply.Entry(answer)
	if err != nil {
		return false, err
	}
	return top.Epoch != p.Epoch || top.Offset >= p.Offset && (entry == "" || seen.TextSum(entry) == p.Sum), nil
}
