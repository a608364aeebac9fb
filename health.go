package gyro

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/internal/loop"
)

// Health of a part of the node: an engine, a shard of it, or the node's own loops.
type Health = broker.Health

var (
	errNotRunning   = errors.New("gyro: node does not run")
	errShuttingDown = errors.New("gyro: node is shutting down")
)

// Health tells for each part of the node whether it delivers, always in the same
// order: first the part "node", whose Delay is how long the slowest of its loops
// takes to come round, then those that the broker, the presence manager and the
// controller report. A node is fit to take clients if no Err is set. "node" is not
// before Run, from Drain or Shutdown on, and while a loop has not come round for more
// than 3 s.
//
// It does not wait for anything, and what it reports is at most a second old, plus
// what an engine takes to find out.
func (n *Node) Health() []Health {
	parts := []Health{n.loopHealth()}
	var seen []broker.HealthReporter
	for _, engine := range []any{n.cfg.Broker, n.cfg.Presence, n.cfg.Controller} {
		r, ok := engine.(broker.HealthReporter)
		if !ok || among(seen, r) {
			continue
		}
		seen = append(seen, r)
		parts = append(parts, r.Health()...)
	}
	return parts
}

// among tells whether r is one of seen. A value that cannot be compared is none.
func among(seen []broker.HealthReporter, r broker.HealthReporter) bool {
	return reflect.ValueOf(r).Comparable() && slices.Contains(seen, r)
}

func (n *Node) loopHealth() Health {
	h := Health{Part: "node"}
	h.Delay, h.Err = n.pulse.health()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closing.Load():
		h.Err = errShuttingDown
	case !n.running:
		h.Err = errNotRunning
	}
	return h
}

const (
	// beatInterval is how often a canary is sent through each loop.
	beatInterval = time.Second
	// beatTimeout is how long it may take.
	beatTimeout = 3 * time.Second
)

// pulse sends canaries through the loops of a node, which come back by the way that
// the work of clients goes. It has one timer and no goroutine.
type pulse struct {
	start time.Time
	beats []beat

	mu    sync.Mutex
	timer *time.Timer
}

// beat is the canary of one loop.
type beat struct {
	loop  *loop.Loop
	start time.Time
	// sent is when it was sent, since start; 0 when it has come back.
	sent atomic.Int64
	// delay is how long it took last.
	delay atomic.Int64
}

// Run is the canary's arrival.
func (b *beat) Run() {
	b.delay.Store(int64(time.Since(b.start)) - b.sent.Load())
	b.sent.Store(0)
}

func newPulse(shards []*shard) *pulse {
	p := &pulse{start: time.Now(), beats: make([]beat, len(shards))}
	for i, s := range shards {
		p.beats[i].loop, p.beats[i].start = s.loop, p.start
	}
	return p
}

// begin is called once.
func (p *pulse) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(beatInterval, p.beat)
}

func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.timer.Reset(beatInterval)
	for i := range p.beats {
		b := &p.beats[i]
		if b.sent.CompareAndSwap(0, max(1, int64(time.Since(p.start)))) {
			b.loop.Post(b)
		}
	}
}

// health returns the longest delay, and an error that names the loops that are
// overdue.
func (p *pulse) health() (delay time.Duration, err error) {
	now := int64(time.Since(p.start))
	var errs []error
	for i := range p.beats {
		b := &p.beats[i]
		d := time.Duration(b.delay.Load())
		if sent := b.sent.Load(); sent != 0 {
			d = max(d, time.Duration(now-sent))
		}
		delay = max(delay, d)
		if d > beatTimeout && b.sent.Load() != 0 {
			errs = append(errs, fmt.Errorf("gyro: loop %d has not come round for %v", i, d.Round(time.Millisecond)))
		}
	}
	return delay, errors.Join(errs...)
}

var _ loop.Task = (*beat)(nil)
