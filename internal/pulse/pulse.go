// Package pulse finds out whether the loops of a node come round, by canaries that go
// the way that the work of clients goes.
package pulse

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/internal/loop"
)

const (
	// interval is how often a canary is sent through each loop.
	interval = time.Second
	// timeout is how long it may take.
	timeout = 3 * time.Second
)

// Pulse of a node. It has one timer and no goroutine. Any goroutine may use it.
type Pulse struct {
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

// New returns the pulse of loops, which rests until Begin.
func New(loops []*loop.Loop) *Pulse {
	p := &Pulse{start: time.Now(), beats: make([]beat, len(loops))}
	for i, l := range loops {
		p.beats[i].loop, p.beats[i].start = l, p.start
	}
	return p
}

// Begin sends canaries from now on, each second. It is called once.
func (p *Pulse) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(interval, p.beat)
}

// End ceases to.
func (p *Pulse) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

func (p *Pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.timer.Reset(interval)
	for i := range p.beats {
		b := &p.beats[i]
		if b.sent.CompareAndSwap(0, max(1, int64(time.Since(p.start)))) {
			b.loop.Post(b)
		}
	}
}

// Health returns how long the slowest loop took to come round, or takes, and an error
// that names the loops that have not done so for more than 3 s.
func (p *Pulse) Health() (delay time.Duration, err error) {
	now := time.Since(p.start)
	var errs []error
	for i := range p.beats {
		b := &p.beats[i]
		d := time.Duration(b.delay.Load())
		if sent := b.sent.Load(); sent != 0 {
			under := now - time.Duration(sent)
			if under > timeout {
				errs = append(errs, fmt.Errorf("gyro: loop %d has not come round for %v", i, under.Round(time.Millisecond)))
			}
			d = max(d, under)
		}
		delay = max(delay, d)
	}
	return delay, errors.Join(errs...)
}

var _ loop.Task = (*beat)(nil)
