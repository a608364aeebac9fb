package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/account"
)

type sender interface {
	// room waits until publications may be sent, and returns how many, from 1 to limit.
	room(ctx context.Context, limit int) (int, error)
	// send reports every answer to the producer.
	send(ctx context.Context, items []item) error
	flush(ctx context.Context) error
}

type item struct {
	channel string
	key     string // of a map's entry
	payload []byte
}

type quota struct {
	messages uint64    // 0 for no limit
	until    time.Time // zero for no limit
	stopped  *atomic.Bool
}

func (q *quota) left(sent uint64) uint64 {
	if q.stopped != nil && q.stopped.Load() || !q.until.IsZero() && !time.Now().Before(q.until) {
		return 0
	}
	if q.messages == 0 {
		return ^uint64(0)
	}
	return q.messages - min(sent, q.messages)
}

type producer struct {
	run       *run
	index     int
	sender    sender
	window    int            // publications in flight
	rate      float64        // publications per second, 0 for as many as the window allows
	broadcast bool           // every message goes to all channels
	turn      *atomic.Uint64 // counts publications: each goes to the next channel

	sent      uint64 // messages
	answered  atomic.Uint64
	latencies shared
	payloads  [][]byte
	items     []item
}

func (r *run) newProducer(window int, rate float64) *producer {
	p := &producer{
		run: r, index: len(r.producers), window: window, rate: rate, turn: &r.turn,
		latencies: shared{h: newHistogram()}, payloads: make([][]byte, window),
	}
	r.producers = append(r.producers, p)
	r.issued = append(r.issued, make([]atomic.Uint64, len(r.channels)))
	return p
}

func (p *producer) produce(ctx context.Context, q quota) error {
	start, first := time.Now(), p.sent
	for {
		left := q.left(p.sent - first)
		if left == 0 {
			break
		}
		limit := int(min(left, uint64(p.window)))
		if p.rate > 0 {
			due := uint64(time.Since(start).Seconds()*p.rate) + 1
			if done := p.sent - first; due <= done {
				if err := p.pause(ctx, start, done, q); err != nil {
					return err
				}
				continue
			}
			limit = int(min(uint64(limit), due-(p.sent-first)))
		}
		n, err := p.sender.room(ctx, limit)
		if err != nil {
			return err
		}
		if err := p.sender.send(ctx, p.next(n)); err != nil {
			return fmt.Errorf("publisher %d: %w", p.index, err)
		}
	}
	return p.sender.flush(ctx)
}

const pauseMost = 50 * time.Millisecond

func (p *producer) pause(ctx context.Context, start time.Time, done uint64, q quota) error {
	wait := time.Until(start.Add(time.Duration(float64(done) / p.rate * float64(time.Second))))
	if !q.until.IsZero() {
		wait = min(wait, time.Until(q.until))
	}
	select {
	case <-time.After(min(max(wait, 0), pauseMost)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *producer) next(n int) []item {
	p.items = p.items[:0]
	now := p.run.elapsed()
	for i := range n {
		s := account.Stamp{Run: p.run.id, Publisher: p.index, Channel: account.EveryChannel, Seq: p.sent, Sent: now}
		name := p.run.channels[0]
		if !p.broadcast {
			s.Channel = int((p.turn.Add(1) - 1) % uint64(len(p.run.channels)))
			s.Seq = p.run.issued[p.index][s.Channel].Add(1) - 1
			name = p.run.channels[s.Channel]
		}
		p.payloads[i] = account.AppendPayload(p.payloads[i][:0], s, p.run.target.Size)
		p.items = append(p.items, item{name, p.run.key(p.sent), p.payloads[i]})
		p.sent++
	}
	return p.items
}

func (p *producer) done(n int, took time.Duration) {
	p.answered.Add(uint64(n))
	p.latencies.record(took)
}

type clientSender struct {
	p      *producer
	client *client
	slots  chan uint32 // free places in the window
	sentAt []atomic.Int64
	taken  []uint32
	cmds   []*protocol.Command
}

func (p *producer) overClient(c *client) {
	s := &clientSender{p: p, client: c, slots: make(chan uint32, p.window), sentAt: make([]atomic.Int64, p.window)}
	for i := range p.window {
		s.slots <- uint32(i)
		s.cmds = append(s.cmds, &protocol.Command{Publish: new(protocol.PublishRequest)})
	}
	c.answered = s.answered
	p.sender = s
}

func (s *clientSender) room(ctx context.Context, limit int) (int, error) {
	s.taken = s.taken[:0]
	select {
	case slot := <-s.slots:
		s.taken = append(s.taken, slot)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	for len(s.taken) < limit && len(s.slots) > 0 { // no other goroutine takes slots
		s.taken = append(s.taken, <-s.slots)
	}
	return len(s.taken), nil
}

func (s *clientSender) send(_ context.Context, items []item) error {
	now := s.p.run.elapsed()
	for i, it := range items {
		slot := s.taken[i]
		s.sentAt[slot].Store(now)
		s.cmds[i].ID = firstPublishID + slot
		s.cmds[i].Publish.Channel, s.cmds[i].Publish.Data = it.channel, it.payload
		if it.key != "" {
			s.cmds[i].Publish.Type, s.cmds[i].Publish.Key = mapType, it.key
		}
	}
	return s.client.send(s.cmds[:len(items)])
}

func (s *clientSender) answered(r *protocol.Reply) {
	slot := r.ID - firstPublishID
	if int64(slot) >= int64(len(s.sentAt)) {
		s.p.run.fail(fmt.Errorf("publisher %d: the server answers command %d, which is not open", s.p.index, r.ID))
		return
	}
	sent := s.sentAt[slot].Swap(-1)
	if sent < 0 {
		s.p.run.fail(fmt.Errorf("publisher %d: the server answers command %d twice", s.p.index, r.ID))
		return
	}
	if r.Error != nil {
		s.p.run.fail(fmt.Errorf("publisher %d: publish: error %w%s", s.p.index, r.Error, publishHint(r.Error)))
		return
	}
	s.p.done(1, time.Duration(s.p.run.elapsed()-sent))
	s.slots <- slot
}

// publishHint explains an error of a server with the default configuration.
func publishHint(err error) string {
	if errors.Is(err, protocol.ErrorPermissionDenied) {
		return " (clients may publish only where allow_publish_for_client is set, anonymous ones where allow_publish_for_anonymous is too; or publish over the HTTP API: --via api)"
	}
	return ""
}

func (s *clientSender) flush(ctx context.Context) error {
	for range s.p.window {
		select {
		case <-s.slots:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for i := range s.p.window {
		s.slots <- uint32(i)
	}
	return nil
}
