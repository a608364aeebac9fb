package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/servers"
	"github.com/gyrohq/gyro/channel"
)

// A failover, or a restart of a server that does not write to disk at once, can lose the
// newest publications of a stream. So can a server whose data go back while it runs (see
// mark.go). Then the stream gives out offsets a second time under the same epoch, and
// subscribers would take the new publications for duplicates. A stream that lacks
// publications, or holds others, gets another epoch, which ends all positions in it. Losses
// are found in three ways:
//
//   - Publishing and reading tell the script what the node knows of the stream. If the
//     stream has not reached a known offset, or gives it out again, the script renews the
//     epoch at once. That costs no round trip, and the publication carries the new epoch.
//   - A link receives an offset a second time. Until the stream is compared, it delivers
//     what comes in that epoch under another epoch, so that nobody takes it for continuous.
//   - When a server may hold other data than before (servers.Client.Generation), the node
//     compares each stream before it reads anything else from the server: with what it
//     delivered last, and with what was acknowledged to it last. That covers channels to
//     which nobody publishes, too.

// settled holds the generation of a shard for which the streams were compared.
type settled struct {
	generation atomic.Uint64

	mu      sync.Mutex
	running chan struct{} // closed when the comparison under way ends; nil without one
	err     error         // of the last comparison
}

var errUnsettled = errors.New("the server is being replaced again and again")

// whenSettled settles the shard and calls read, again if the server was replaced meanwhile: the
// answer may be older than a comparison since, which ended the epoch that it has.
func (b *Broker) whenSettled(ctx context.Context, s *shard, read func() error) error {
	const attempts = 3
	for range attempts {
		if err := b.settle(ctx, s); err != nil {
			return err
		}
		before := s.settled.generation.Load()
		if err := read(); err != nil || s.client.Generation() == before {
			return err
		}
	}
	return fmt.Errorf("%s: %w", s.client.Name(), errUnsettled)
}

// settleBehind settles the shard when a new connection for PUB/SUB has been made, before
// anything is subscribed on it. If that fails, it closes the connection.
func (b *Broker) settleBehind(ctx context.Context, l *link, raw net.Conn) error {
	s := l.shard
	// First a command, as the connection for commands may be broken, too, without having
	// noticed.
	err := s.client.Explain(s.client.Do(ctx, s.client.B().Ping().Build()).Error())
	if err == nil {
		_ = l.mark(ctx) // watch tells of refusals
		err = b.settle(ctx, s)
	}
	if err != nil {
		raw.Close()
	}
	return err
}

// settle returns when each stream of the shard holds the delivered publications, or has another epoch.
func (b *Broker) settle(ctx context.Context, s *shard) error {
	for !s.isSettled() {
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

// compare starts a comparison, unless one is under way, and returns a channel that is closed
// at its end.
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
		var err error
		for err == nil && !s.isSettled() {
			generation := s.client.Generation()
			if err = b.compareAll(b.lifetime, s); err == nil {
				s.settled.generation.Store(generation)
			}
		}
		s.settled.mu.Lock()
		defer s.settled.mu.Unlock()
		s.settled.running, s.settled.err = nil, err
		close(running)
	})
	return running
}

// candidate is a publication that a stream should hold.
type candidate struct {
	losses.Publication
	hash    uint64         // of the channel
	top     uint64         // the greatest offset that the stream is known to have had in this epoch
	earlier losses.Epochs  // of the stream, as far as they are known
	stale   string         // the epoch to renew, if the stream lost the publication
	sub     *losses.Stream // nil: it was acknowledged to the node
	doubt   *string        // of sub, when the comparison began
}

// compareAll compares the deliveries of all links of the shard, and the publications that the shard has acknowledged.
func (b *Broker) compareAll(ctx context.Context, s *shard) error {
	for _, l := range b.links[s.index] {
		_ = l.mark(ctx) // watch tells of refusals
	}
	// With proof of a loss, a publication that cannot be compared counts as lost.
	wentBack := s.wentBack.Swap(false)
	var all []candidate
	for _, p := range s.acked.All() {
		all = append(all, candidate{Publication: p.Publication, top: p.Offset, hash: format.Hash(p.Channel), earlier: p.Earlier})
	}
	for _, l := range b.links[s.index] {
		all = append(all, l.delivered()...)
	}
	for some := range slices.Chunk(all, servers.MaxPipeline) {
		if err := b.compareSome(ctx, s, some, wentBack); err != nil {
			if wentBack {
				s.wentBack.Store(true)
			}
			return err
		}
	}
	return nil
}

// delivered returns the last delivered publications of channels with history.
func (l *link) delivered() []candidate {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []candidate
	for _, sub := range l.channels.All {
		if c := candidateOf(sub); c.top > 0 {
			list = append(list, c)
		}
	}
	return list
}

// candidateOf returns the last delivered publication, or the top of a read if nothing was delivered since.
func candidateOf(sub *losses.Stream) candidate {
	c := candidate{sub: sub, hash: format.Hash(sub.Channel())}
	c.Publication, c.top, c.doubt = sub.Delivered()
	if c.Offset == 0 {
		c.Offset = c.top
	}
	return c
}

// compareSome compares at most servers.MaxPipeline channels.
func (b *Broker) compareSome(ctx context.Context, s *shard, some []candidate, wentBack bool) error {
	m := commands.NewArena(commands.MaxArena)
	calls := make([]commands.Call, len(some))
	for i := range some {
		c, p := &calls[i], &some[i]
		c.Script = b.kinds.scripts.Entry
		c.Key(m.Name(&s.names, b.kinds.history, p.Channel, p.hash), m.Name(&s.names, b.kinds.meta, p.Channel, p.hash))
		c.Arg(m.Number(p.Offset))
	}
	answers, _ := commands.RunAll(ctx, s.client, calls, nil)
	var lost, moved []candidate
	for i := range some {
		p := &some[i]
		top, entry, err := commands.ReadEntry(&answers[i])
		switch {
		case foreign(err):
		case err != nil:
			return s.client.Explain(err)
		case p.earlier.Has(top.Epoch):
			p.stale = strings.Clone(top.Epoch)
			lost = append(lost, *p)
		case top.Epoch != p.Epoch:
			s.moved(p, top)
			moved = append(moved, *p)
		case p.holds(top.Offset, entry, wentBack):
			p.sub.Confirm(p.doubt)
		default:
			p.stale = p.Epoch
			lost = append(lost, *p)
		}
	}
	if err := b.renew(ctx, s, lost); err != nil {
		return err
	}
	if len(lost) > 0 {
		b.engine.cfg.Logger.Warn("redis lost publications that were delivered or acknowledged; streams have a new epoch",
			"part", s.client.Name(), "channels", len(channelsOf(lost)), "channel", lost[0].Channel)
	}
	b.report(append(lost, moved...))
	return nil
}

// foreign tells that a key has another type than the keys of streams. Then there is no stream. That must not hold up the
// other channels.
func foreign(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// holds tells whether a stream of the same epoch holds the publication. entry is the entry of the stream at the offset.
// Without an entry, which may have been trimmed, the stream counts as holding it, unless the data went back and later
// publications were not delivered here.
func (c *candidate) holds(top uint64, entry string, wentBack bool) bool {
	if top < c.top {
		return false
	}
	if entry != "" && c.Sum != 0 {
		return losses.TextSum(entry) == c.Sum
	}
	return top == c.top || c.sub == nil || !wentBack
}

// renew gives streams that still have the stale epoch of their candidates other epochs.
func (b *Broker) renew(ctx context.Context, s *shard, lost []candidate) error {
	if len(lost) == 0 {
		return nil
	}
	m := commands.NewArena(512)
	calls := make([]commands.Call, len(lost))
	for i := range lost {
		c, p := &calls[i], &lost[i]
		c.Script = commands.Renew
		c.Key(m.Name(&s.names, b.kinds.meta, p.Channel, p.hash))
		c.Arg(p.stale, m.Epoch())
	}
	answers, _ := commands.RunAll(ctx, s.client, calls, nil)
	for i := range answers {
		top, err := commands.ReadRenewed(&answers[i])
		if err != nil && !foreign(err) {
			return s.client.Explain(err)
		}
		s.moved(&lost[i], top)
	}
	return nil
}

// channelsOf returns the channels of candidates. A channel may have several candidates.
func channelsOf(candidates []candidate) map[string]bool {
	channels := make(map[string]bool, len(candidates))
	for i := range candidates {
		channels[candidates[i].Channel] = true
	}
	return channels
}

// report asks the node to check the positions of subscriptions in these channels.
func (b *Broker) report(candidates []candidate) {
	if len(candidates) == 0 {
		return
	}
	channels := channelsOf(candidates)
	b.handler.HandleLoss(func(ch string) bool { return channels[ch] })
}

// moved notes the top of a stream that has another epoch.
func (s *shard) moved(p *candidate, top channel.StreamPosition) {
	top.Epoch = strings.Clone(top.Epoch)
	if p.sub == nil {
		s.acked.Moved(p.hash, &p.Publication, top.Epoch, top.Offset, p.stale)
		return
	}
	p.sub.Moved(p.Epoch, top)
}
