// Package position finds losses that no publication shows: it compares the positions
// of a node's subscriptions with the tops of their streams, one read per channel
// (recovery.md section 6).
//
// A round begins, and then the tops are read. Once everything that was accepted
// before must have arrived, each top follows the publications of its channel through
// the hub to the subscribers. There a position that stood still since before the
// round has to be the top; one that moved was confirmed by what moved it. So a
// publication that is under way is no loss, whatever holds it up on the node, and
// neither is a subscription younger than the round misjudged, nor does a stream go
// back unseen that lost its newest entries.
package position

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/route"
)

// Config of a Checker. All fields are needed.
type Config struct {
	// Broker whose streams are read: itself, not something in front of it that lets
	// a read share the answer of an earlier one.
	Broker broker.Broker
	Routes *route.Table
	Rounds *hub.Rounds
	// Post hands a check to the subscribers of its channel, behind the publications
	// that were handed over before. It may block.
	Post func(*hub.Message)
	// Delay between two checks of a channel; negative for none but those that Lost
	// asks for.
	Delay time.Duration
	Log   *slog.Logger
}

// Checker checks the positions in the channels that it watches. It has a goroutine
// only while there are such. Its methods may be called from any goroutine.
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
	ttls    []time.Duration // by mark - 1; the first one is 0
}

const (
	// batchSize is the most tops that are read at once.
	batchSize = 512
	// minStep is the least time between two buckets.
	minStep = 10 * time.Millisecond
	// retryDelay is when what could not be read after a loss is read once more.
	retryDelay = 5 * time.Second
	// maxLosses is how many losses are told apart while they wait.
	maxLosses = 32
	// maxMark bounds the times to live that are told apart.
	maxMark = 255
)

// New returns a checker that watches nothing.
func New(cfg Config) *Checker {
	c := &Checker{cfg: cfg, broker: cfg.Broker.Describe(), wake: make(chan struct{}, 1), ttls: []time.Duration{0}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Watch has a channel that is routed checked from now on, until it is routed no
// more. metaTTL is what reads of its stream renew the life of the position with; 0
// for the broker's default.
func (c *Checker) Watch(ch string, metaTTL time.Duration) {
	if c.cfg.Routes.Mark(ch, c.mark(metaTTL)) && c.cfg.Delay >= 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.start()
	}
}

// Lost has the watched channels for which match is true checked at once. It does not
// block. If it is called again while checks are under way, those that it asks for
// follow together.
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

// Close ends the checks and waits for that.
func (c *Checker) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.done.Wait()
}

// start sees to it that the goroutine runs; c.mu is held.
func (c *Checker) start() {
	if !c.running && !c.closed {
		c.running = true
		c.done.Go(newRunner(c).run)
	}
}

// stop reports whether the goroutine is to end: it has nothing to do, and whoever
// has something for it will start another one.
func (c *Checker) stop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.losses) > 0 || c.cfg.Delay >= 0 && c.cfg.Routes.HasMarked() {
		return false
	}
	c.running = false
	return true
}

// mark is the route's mark for a time to live. There are as many of these as there
// are kinds of channels; one too many becomes the default.
func (c *Checker) mark(ttl time.Duration) uint8 {
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
	if len(c.ttls) == maxMark {
		return 1
	}
	c.ttls = append(c.ttls, ttl)
	return uint8(len(c.ttls))
}

// target is a channel to check.
type target struct {
	channel string
	ttl     time.Duration
	again   bool // it could not be read before
}

// targets appends the watched channels of a bucket.
func (c *Checker) targets(to []target, bucket int) []target {
	c.mu.Lock()
	ttls := c.ttls // grows, but nothing in it changes
	c.mu.Unlock()
	c.cfg.Routes.Marked(bucket, func(ch string, mark uint8) {
		t := target{channel: ch}
		if int(mark) <= len(ttls) {
			t.ttl = ttls[mark-1]
		}
		to = append(to, t)
	})
	return to
}
