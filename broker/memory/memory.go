// Package memory is the engine of a single process: a broker and a presence manager that keep everything in memory and
// lose it at exit. It carries no control messages: a node on it is alone.
//
// Unlike the memory engine of the reference server it follows the specification: a publication without version keeps the
// stored version, and publications in history carry no epoch.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

const (
	defaultHistoryMetaTTL = 30 * 24 * time.Hour
	defaultIdempotencyTTL = 300 * time.Second
	defaultPresenceTTL    = 60 * time.Second

	// lockCount is large because a handler that blocks holds up the channels that share its lock.
	lockCount = 4096
	// stripeCount is small because the locks are held briefly, and many small maps cost more cache misses than few large
	// ones.
	stripeCount = 64
)

var (
	errNotRunning = errors.New("memory broker: not running")
	errRunTwice   = errors.New("memory broker: already run or closed")
)

// Config of the memory engine. The zero value is good.
type Config struct {
	// HistoryMetaTTL is how long a stream's top offset and epoch outlive their last use, when a call does not set its
	// own time, and never less than the publications. Default 30 days.
	HistoryMetaTTL time.Duration
	// PresenceTTL is how long a presence entry lives without being renewed. Default 60 s; it should be more than twice
	// the interval of the renewals.
	PresenceTTL time.Duration
}

// Broker keeps streams in memory and hands events to the one node of this process, in the goroutine that publishes.
//
// A publication holds the channel's lock during the append to history and the call of the handler. Channels share 4096
// locks by hash. So a handler that blocks holds up the publishers of its own channel and of few others. It must not call
// Publish, PublishJoin, PublishLeave, Positions or Close, which may wait for the lock. Waiting for a lock is not bounded
// by the context.
type Broker struct {
	metaTTL     time.Duration
	seed        maphash.Seed
	epochs      maphash.Seed
	start       time.Time
	handler     broker.EventHandler
	lifecycle   enginekit.Lifecycle
	expiryQueue expiryQueue
	locks       []sync.Mutex // held while a publication is accepted and handled
	stripes     []stripe

	presence *Presence
}

// stripe holds the channels of one hash value. Its lock is never held during a handler call. With several locks, a
// channel's lock is taken first and the lock of the queue last.
type stripe struct {
	mu       sync.Mutex
	channels table[string, state]
	results  table[resultKey, *result]
	lives    lives
}

// state of a channel. The zero value means the same as no entry.
type state struct {
	subscribed bool
	life       uint32 // of the stream, if it has no publications; 0 if not subscribed
	stream     *stream
}

// New returns a broker that waits for Run, with a presence manager in its traits. It needs no Close if it never ran.
func New(cfg Config) *Broker {
	b := &Broker{
		metaTTL: enginekit.PositiveOr(cfg.HistoryMetaTTL, defaultHistoryMetaTTL),
		seed:    maphash.MakeSeed(),
		epochs:  maphash.MakeSeed(),
		start:   time.Now(),
		locks:   make([]sync.Mutex, lockCount),
		stripes: make([]stripe, stripeCount),

		lifecycle: enginekit.Lifecycle{ErrRunTwice: errRunTwice, ErrNotRunning: errNotRunning, ErrClosed: errNotRunning},
		presence:  NewPresence(cfg),
	}
	b.expiryQueue.clock = b.now
	b.expiryQueue.due = func(e expiring, now int64) { e.expire(b, now) }
	return b
}

// Describe implements broker.Engine. The broker is local: Subscribe, Unsubscribe and History take no locks of channels.
func (b *Broker) Describe() broker.Traits {
	return broker.Traits{
		Name: "memory", Local: true,
		History: true, Idempotency: true, Versions: true, Delta: true,
		Batch: b.PublishBatch, Positions: b.Positions, Maps: b, Presence: b.presence,
	}
}

// Broker returns b, so that a program can set gyro.Config.Engine to it.
func (b *Broker) Broker() broker.Broker { return b }

// Run implements broker.Broker. It fails when called twice or after Close.
func (b *Broker) Run(h broker.EventHandler) error {
	if err := b.lifecycle.Start(); err != nil {
		return err
	}
	b.handler = h
	if b.lifecycle.Running(nil) != nil {
		return errRunTwice // closed meanwhile
	}
	return nil
}

// Subscribe implements broker.Broker.
func (b *Broker) Subscribe(ctx context.Context, channels ...string) error {
	return b.setSubscribed(ctx, channels, true)
}

// Unsubscribe implements broker.Broker. At most one event of each channel comes after it, which was being delivered.
func (b *Broker) Unsubscribe(ctx context.Context, channels ...string) error {
	return b.setSubscribed(ctx, channels, false)
}

func (b *Broker) setSubscribed(ctx context.Context, channels []string, to bool) error {
	for _, ch := range channels {
		s, err := b.enter(ctx, ch)
		if err != nil {
			return err
		}
		c := s.channels.get(ch)
		switch {
		case !to:
			c.life = 0
		case !c.subscribed:
			c.life = b.life(s, ch, c)
		}
		c.subscribed = to
		s.put(ch, c)
		s.mu.Unlock()
	}
	return nil
}

// PublishJoin implements broker.Broker. info must not be changed afterwards.
func (b *Broker) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.publishInfo(ctx, ch, func() { b.handler.HandleJoin(ch, info) })
}

// PublishLeave implements broker.Broker.
func (b *Broker) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return b.publishInfo(ctx, ch, func() { b.handler.HandleLeave(ch, info) })
}

func (b *Broker) publishInfo(ctx context.Context, ch string, handle func()) error {
	lock, s := b.locate(ch)
	lock.Lock()
	defer lock.Unlock()
	if err := b.lifecycle.Check(ctx); err != nil {
		return err
	}
	if subscribed, err := b.subscribed(s, ch); err != nil || !subscribed {
		return err
	}
	handle()
	return nil
}

func (b *Broker) subscribed(s *stripe, ch string) (bool, error) {
	s.mu.Lock()
	subscribed := s.channels.get(ch).subscribed
	s.mu.Unlock()
	if !b.lifecycle.IsRunning() {
		return false, errNotRunning
	}
	return subscribed, nil
}

// Close implements broker.Broker. It waits for the handler calls under way. If ctx ends before they do, Close returns
// the context's error, and the broker is freed when they return.
func (b *Broker) Close(ctx context.Context) error {
	b.lifecycle.Close()
	b.expiryQueue.close()
	return enginekit.Await(ctx, b.clear)
}

// enter locks the channel's stripe. It looks at the state under the lock, so that nothing is put into a stripe that
// Close has cleared.
func (b *Broker) enter(ctx context.Context, ch string) (*stripe, error) {
	_, s := b.locate(ch)
	s.mu.Lock()
	if err := b.lifecycle.Check(ctx); err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return s, nil
}

func (b *Broker) locate(ch string) (*sync.Mutex, *stripe) {
	hash := maphash.String(b.seed, ch)
	return &b.locks[hash%lockCount], &b.stripes[hash/lockCount%stripeCount]
}

// now does not follow the wall clock.
func (b *Broker) now() int64 { return int64(time.Since(b.start)) }

// clear takes every lock, so that no handler call is under way.
func (b *Broker) clear() {
	for i := range b.locks {
		b.locks[i].Lock()
		b.locks[i].Unlock() //nolint:staticcheck // the broker is closed: no caller takes a lock any more
	}
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		s.channels = table[string, state]{}
		s.results = table[resultKey, *result]{}
		s.lives = lives{}
		s.mu.Unlock()
	}
}

func (s *stripe) put(ch string, c state) {
	if c == (state{}) {
		s.channels.delete(ch)
		return
	}
	s.channels.set(ch, c)
}

// after does not overflow.
func after(t int64, d time.Duration) int64 {
	if sum := t + int64(d); sum >= t {
		return sum
	}
	return math.MaxInt64
}
