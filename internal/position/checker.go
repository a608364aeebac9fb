// Package position follows the positions of subscriptions in their streams (Position), and finds losses that no
// publication shows (Checker): it compares positions with the tops of their streams, one read per channel. A check
// begins a round and reads the tops. When everything that was accepted before must have arrived, it posts each top
// behind the publications of its channel. A position that has not moved since the round began must be the top; the
// publication that moved another one has confirmed it. So a publication that the node holds up is not taken for a loss,
// a subscription that is younger than the round is not judged, and a stream that lost its newest entries is noticed.
package position

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/route"
)

// Config of a Checker. All fields are needed.
type Config struct {
	// Broker whose streams are read, without limits: there a read could share the answer of an earlier one.
	Broker broker.Broker
	Routes *route.Table
	Rounds *hub.Rounds
	// Post hands a check to the subscribers of its channel, behind publications that were posted before. It may block.
	Post func(*hub.Message)
	// Delay between two checks of a channel. If it is negative, only Lost makes checks.
	Delay time.Duration
	Log   *slog.Logger
}

// Checker checks the positions in the channels that it watches. It has a goroutine only while there are some. Any
// goroutine may use it.
type Checker struct {
	cfg    Config
	broker broker.Traits
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wake   chan struct{}
	done   sync.WaitGroup

	mu      sync.Mutex
	running bool
	closed  bool
	losses  []func(ch string) bool
	ttls    []time.Duration // by route.Check.TTL - 1; the first is 0
}

const (
	batchSize = 512
	minStep   = 10 * time.Millisecond
	// With a Delay of shortDelay and more, buckets that are due within pace are checked together, so that an idle node
	// wakes up rarely and asks for many tops at once, unless they are more than a batch.
	shortDelay = 10 * time.Second
	pace       = time.Second
	// retryDelay is when reads that failed after a loss are tried once more.
	retryDelay = 5 * time.Second
	// maxLosses is how many losses wait. With one more, all channels are checked.
	maxLosses = 32
	// maxTTLs is how many different times to live there can be. More get the broker's default.
	maxTTLs = math.MaxUint8
)

func New(cfg Config) *Checker {
	c := &Checker{cfg: cfg, broker: cfg.Broker.Describe(), wake: make(chan struct{}, 1), ttls: []time.Duration{0}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Watch makes the checker check a routed channel until the route ends. Reads of its stream renew the life of the
// position by metaTTL, or by the broker's default if that is 0.
func (c *Checker) Watch(ch string, metaTTL time.Duration) {
	if c.cfg.Routes.SetCheck(ch, route.Check{TTL: c.ttl(metaTTL)}) && c.cfg.Delay >= 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.start()
	}
}

// Watches reports whether the checker watches a channel. Channels that are only Fragile are not watched.
func (c *Checker) Watches(ch string) bool { return c.cfg.Routes.CheckOf(ch).TTL != 0 }

// Fragile says that the subscribers of a routed channel need every message, and that it has no stream to check. They
// begin anew after each loss.
func (c *Checker) Fragile(ch string) { c.cfg.Routes.SetCheck(ch, route.Check{Fragile: true}) }

// Lost asks, without blocking, for an immediate check of the watched channels that match accepts. The next checks answer
// all calls that come while checks are under way.
func (c *Checker) Lost(match func(ch string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if len(c.losses) < maxLosses {
		c.losses = append(c.losses, match)
	} else {
		c.losses[0] = func(string) bool { return true }
	}
	c.start()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Checker) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.done.Wait()
}

func (c *Checker) start() {
	if !c.running && !c.closed {
		c.running = true
		c.done.Go((&runner{Checker: c}).run)
	}
}

// stop reports whether the goroutine must end for lack of work. Watch and Lost start another one.
func (c *Checker) stop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.losses) > 0 || c.cfg.Delay >= 0 && c.cfg.Routes.HasChecked() {
		return false
	}
	c.running = false
	return true
}

// ttl returns the number of a time to live in a route.Check.
func (c *Checker) ttl(ttl time.Duration) uint8 {
	if ttl == 0 {
		return 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, known := range c.ttls {
		if known == ttl {
			return uint8(i + 1)
		}
	}
	if len(c.ttls) == maxTTLs {
		return 1
	}
	c.ttls = append(c.ttls, ttl)
	return uint8(len(c.ttls))
}

type target struct {
	channel string
	ttl     time.Duration
	again   bool // its read has failed once
	fragile bool
}

// targets appends the watched channels of a bucket; after a loss, also the fragile ones.
func (c *Checker) targets(to []target, bucket int, loss bool) []target {
	c.mu.Lock()
	ttls := c.ttls // elements are added but never changed
	c.mu.Unlock()
	c.cfg.Routes.Checked(bucket, func(ch string, check route.Check) {
		if check.Fragile && !loss {
			return
		}
		t := target{channel: ch, fragile: check.Fragile}
		if n := int(check.TTL); n > 0 && n <= len(ttls) { // more if it has come since
			t.ttl = ttls[n-1]
		}
		to = append(to, t)
	})
	return to
}
