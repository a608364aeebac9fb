package loop

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/internal/beat"
)

const (
	pulseInterval = time.Second
	pulseTimeout  = 3 * time.Second
)

// Pulse measures by canaries, tasks like those of clients, whether loops keep up, with one timer and no goroutine. Any
// goroutine may use it.
type Pulse struct {
	start    time.Time
	canaries []canary
	ticks    []func()

	mu    sync.Mutex
	timer *time.Timer
}

type canary struct {
	loop  *Loop
	start time.Time
	// sent is when the canary was posted, since start; 0 once it has run.
	sent  atomic.Int64
	delay atomic.Int64
}

// Run implements Task.
func (c *canary) Run() {
	c.delay.Store(int64(time.Since(c.start)) - c.sent.Load())
	c.sent.Store(0)
}

// NewPulse returns a Pulse. With each canary it calls the ticks that are not nil, which must not block.
func NewPulse(loops []*Loop, ticks ...func()) *Pulse {
	p := &Pulse{start: time.Now(), canaries: make([]canary, len(loops)), ticks: ticks}
	for i, l := range loops {
		p.canaries[i].loop, p.canaries[i].start = l, p.start
	}
	return p
}

// Begin sends canaries, each second. It is called once.
func (p *Pulse) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(beat.Until(pulseInterval), p.send)
}

// End sends no more canaries.
func (p *Pulse) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

func (p *Pulse) send() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.timer.Reset(beat.Until(pulseInterval))
	for _, tick := range p.ticks {
		if tick != nil {
			tick()
		}
	}
	for i := range p.canaries {
		c := &p.canaries[i]
		if c.sent.CompareAndSwap(0, max(1, int64(time.Since(p.start)))) {
			c.loop.Post(c)
		}
	}
}

// Health returns the delay of the slowest canary, and an error that names the loops whose canary takes more than 3 s.
func (p *Pulse) Health() (delay time.Duration, err error) {
	now := time.Since(p.start)
	var errs []error
	for i := range p.canaries {
		c := &p.canaries[i]
		d := time.Duration(c.delay.Load())
		if sent := c.sent.Load(); sent != 0 {
			since := now - time.Duration(sent)
			if since > pulseTimeout {
				errs = append(errs, fmt.Errorf("gyro: loop %d has not come round for %v", i, since.Round(time.Millisecond)))
			}
			d = max(d, since)
		}
		delay = max(delay, d)
	}
	return delay, errors.Join(errs...)
}
