package memory

import (
	"context"
	"strings"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

// clockEvery publications of a batch share one look at the clock and the context.
const clockEvery = 64

// Publish implements broker.Broker. The result of an idempotency key is remembered with and without history, but not of
// a publication suppressed by its version.
func (b *Broker) Publish(ctx context.Context, ch string, pub *channel.Publication, opts broker.PublishOptions) (broker.PublishResult, error) {
	if err := ctx.Err(); err != nil {
		return broker.PublishResult{}, err
	}
	result, _, err := b.publish(ch, pub, &opts, time.Now())
	return result, err
}

// PublishBatch is Traits.Batch.
func (b *Broker) PublishBatch(ctx context.Context, batch []broker.BatchItem) {
	var now time.Time
	var err error
	for i := range batch {
		if i%clockEvery == 0 {
			now, err = time.Now(), ctx.Err()
		}
		item := &batch[i]
		if err != nil {
			item.Result, item.Err = broker.PublishResult{}, err
			continue
		}
		var kept bool
		item.Result, kept, item.Err = b.publish(item.Channel, item.Pub, &item.Options, now)
		item.Unkept = !kept
	}
}

func (b *Broker) publish(ch string, pub *channel.Publication, opts *broker.PublishOptions, now time.Time) (result broker.PublishResult, kept bool, err error) {
	lock, s := b.locate(ch)
	if !opts.Kept() && opts.IdempotencyKey == "" {
		// There is nothing to do. Not taking the lock saves two thirds of the cost.
		if subscribed, err := b.subscribed(s, ch); err != nil || !subscribed {
			return broker.PublishResult{}, false, err
		}
	}
	lock.Lock()
	defer lock.Unlock()
	if !b.lifecycle.IsRunning() {
		return broker.PublishResult{}, false, errNotRunning
	}
	event, result, deliver := b.accept(s, ch, pub, opts, now)
	if deliver {
		b.handler.HandlePublication(ch, event)
	}
	return result, deliver || event.Epoch != "" && !plain(pub), nil
}

// accept suppresses or stores pub; the event of a stored one has an epoch. The caller holds the channel's lock.
func (b *Broker) accept(s *stripe, ch string, pub *channel.Publication, opts *broker.PublishOptions, wall time.Time) (event broker.PublicationEvent, result broker.PublishResult, deliver bool) {
	now := int64(wall.Sub(b.start))
	s.mu.Lock()
	defer s.mu.Unlock()
	if opts.IdempotencyKey != "" {
		if position, ok := s.cached(ch, opts.IdempotencyKey, now); ok {
			return event, broker.PublishResult{Position: position, Suppressed: broker.SuppressIdempotency}, false
		}
	}

	enginekit.Stamp(pub, wall)
	c := s.channels.get(ch)
	event = broker.PublicationEvent{Pub: pub, Delta: opts.Delta}
	if opts.Kept() {
		st := b.stream(s, &c, now)
		if st == nil {
			st = b.begin(s, ch, &c)
		}
		fresh := st.accepts(pub.Version, opts.VersionEpoch)
		if fresh {
			if opts.Delta {
				event.Prev = st.newest()
			}
			st.append(pub, opts)
			event.Epoch = st.epoch
		}
		st.renew(now, opts.HistoryTTL, enginekit.PositiveOr(opts.HistoryMetaTTL, b.metaTTL))
		b.schedule(st)
		result.Position = st.position()
		if !fresh {
			result.Suppressed = broker.SuppressVersion
			return event, result, false
		}
	}
	if opts.IdempotencyKey != "" {
		b.cache(s, ch, opts.IdempotencyKey, opts.IdempotencyTTL, result.Position, now)
	}
	return event, result, c.subscribed
}

type resultKey struct{ channel, key string }

type result struct {
	queuePlace
	resultKey
	position channel.StreamPosition
	expireAt int64
}

func (s *stripe) cached(ch, key string, now int64) (channel.StreamPosition, bool) {
	r := s.results.get(resultKey{ch, key})
	if r == nil || r.expireAt <= now {
		return channel.StreamPosition{}, false
	}
	return r.position, true
}

// cache remembers a position; a ttl of 0 is the default.
func (b *Broker) cache(s *stripe, ch, idempotency string, ttl time.Duration, position channel.StreamPosition, now int64) {
	key := resultKey{ch, idempotency}
	r := s.results.get(key)
	if r == nil { // else it has expired and was not swept yet
		key = resultKey{strings.Clone(ch), strings.Clone(idempotency)}
		r = &result{resultKey: key}
		s.results.set(key, r)
	}
	r.position = position
	r.expireAt = after(now, enginekit.PositiveOr(ttl, defaultIdempotencyTTL))
	b.expiryQueue.schedule(r, r.expireAt)
}

func (r *result) expire(b *Broker, now int64) {
	_, s := b.locate(r.channel)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results.get(r.resultKey) != r {
		return
	}
	if r.expireAt > now {
		b.expiryQueue.schedule(r, r.expireAt)
		return
	}
	s.results.delete(r.resultKey)
	b.expiryQueue.cancel(r)
}
