package sharedpoll

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/observe"
)

// Channel is a shared poll channel on this node, while it has subscribers and a little longer. Any goroutine may use it.
type Channel struct {
	name        string
	table       *Table
	subscribers int
	linger      *time.Timer // runs while there are no subscribers

	// applying is held while an answer is taken and its changes are posted, which keeps their order. Loops never take
	// it.
	applying sync.Mutex

	mu    sync.Mutex
	state state
	cycle cycle
	// timer is for the next step; hasty is how many calls for urgent keys are under way. notified tells whether the node
	// was notified of some of the urgent keys.
	timer    *time.Timer
	hasty    int
	notified bool
	// gathering runs while keys of notifications wait for more of them.
	gathering *time.Timer
	closed    bool
}

// maxHasty is how many calls for urgent keys a channel makes at a time, unless there are enough keys for a whole call.
// Keys that become urgent meanwhile gather for the next one.
const maxHasty = 2

func (c *Channel) Epoch() (epoch string, generation uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.epoch, c.state.generation
}

// want is a key that a client begins to track, or tracks with another version.
type want struct {
	Key     string
	Version uint64
	// New: it is the first client of its loop that tracks the key.
	New bool
	// Value is the newest one if the node keeps one that is newer than Version.
	Value *channel.Publication
}

// Track takes the keys that a client of a loop begins to track, and asks the application for values that the client
// lacks.
func (c *Channel) Track(loop int, wants []want) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range wants {
		w := &wants[i]
		var e *entry
		if w.New {
			e = c.state.add(w.Key, loop)
		} else {
			e = c.state.keys[w.Key]
		}
		w.Value = c.state.seek(e, w.Version)
	}
	c.plan()
}

// Untrack says that no client of a loop tracks a key.
func (c *Channel) Untrack(loop int, key string) {
	now := time.Now().UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.remove(key, loop, c.table.loops, now)
	c.forgetIdle(now)
	c.plan()
}

// forgetIdle forgets keys that no client has tracked for a while. The lock is held.
func (c *Channel) forgetIdle(now int64) {
	linger := max(cmp.Or(c.state.opts.Linger, channel.DefaultPollLinger), 0)
	c.state.forgetIdle(now - int64(linger))
}

func (c *Channel) batchSize() int {
	return cmp.Or(c.state.opts.BatchSize, channel.DefaultPollBatchSize)
}

func (c *Channel) plan() {
	if c.closed {
		return
	}
	for len(c.state.urgent) > 0 && (c.hasty < maxHasty || len(c.state.urgent) >= c.batchSize()) {
		n := min(len(c.state.urgent), c.batchSize())
		r := c.state.ask(c.state.urgent[:n])
		if c.state.urgent = c.state.urgent[n:]; len(c.state.urgent) == 0 {
			c.state.urgent = nil
		}
		if r == nil {
			continue
		}
		kind := observe.PollTrack
		if c.notified {
			kind = observe.PollNotify
		}
		c.hasty++
		c.table.calls.Go(func() {
			c.call(r, kind)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.hasty--
			c.plan()
		})
	}
	c.notified = c.notified && len(c.state.urgent) > 0
	if c.timer == nil && len(c.state.live) > 0 {
		c.cycle.interval = c.interval()
		c.cycle.next = time.Now().Add(c.cycle.interval)
		c.timer = time.AfterFunc(c.cycle.interval, c.step)
	}
}

func (c *Channel) interval() time.Duration {
	return cmp.Or(c.state.opts.Interval, channel.DefaultPollInterval)
}

type cycle struct {
	// interval of now, which grows while the application is slow.
	interval time.Duration
	next     time.Time // when the next cycle begins
	begin    time.Time
	keys     []*entry
	batches  int // of this cycle; 0 between cycles
	made     int // calls that were made
	ended    int // calls that have ended
	size     int // keys per call
	work     time.Duration
}

func (c *Channel) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	now := time.Now()
	y := &c.cycle
	if y.batches == 0 {
		c.forgetIdle(now.UnixNano())
		if len(c.state.live) == 0 {
			c.timer = nil
			return
		}
		y.begin, y.size, y.made, y.ended, y.work = now, c.batchSize(), 0, 0, 0
		y.keys = append(y.keys[:0], c.state.live...)
		y.batches = (len(y.keys) + y.size - 1) / y.size
	}
	for y.made < y.batches && !y.due(y.made).After(now) {
		from := y.made * y.size
		y.made++
		r := c.state.ask(y.keys[from:min(from+y.size, len(y.keys))])
		if r == nil {
			y.ended++
			continue
		}
		c.table.calls.Go(func() {
			took := c.call(r, observe.PollInterval)
			c.mu.Lock()
			defer c.mu.Unlock()
			y.ended++
			y.work += took
			c.proceed()
		})
	}
	c.proceed()
}

func (y *cycle) due(batch int) time.Time {
	return y.begin.Add(y.interval * time.Duration(batch) / time.Duration(y.batches))
}

// proceed sets the timer for the next call, or ends the cycle. The lock is held.
func (c *Channel) proceed() {
	y := &c.cycle
	if c.closed || y.batches == 0 {
		return
	}
	if y.made < y.batches {
		c.timer.Reset(time.Until(y.due(y.made)))
		return
	}
	if y.ended < y.batches {
		return
	}
	now := time.Now()
	done := &observe.Polled{Kind: observe.PollCycle, Channel: c.name, Keys: len(y.keys), Took: now.Sub(y.begin), Work: y.work}
	c.table.calls.Go(func() { c.table.observe(done) }) // without the lock
	y.interval = adapt(y.interval, c.interval(), c.state.opts.MaxInterval, y.work)
	y.next = y.begin.Add(y.interval)
	y.batches = 0
	clear(y.keys)
	c.timer.Reset(max(y.next.Sub(now), 0))
}

// adapt lengthens the interval while the calls of a cycle take more than half of it.
func adapt(interval, usual, most, work time.Duration) time.Duration {
	if most <= usual {
		return usual
	}
	switch {
	case work > interval:
		interval *= 2
	case 2*work >= interval:
		interval = 2 * work
	default:
		interval = interval * 3 / 4
	}
	return min(max(interval, usual), most)
}

func (c *Channel) call(r *request, kind observe.PollKind) (took time.Duration) {
	c.mu.Lock()
	opts := c.state.opts
	c.mu.Unlock()
	p := &observe.Polled{Kind: kind, Channel: c.name, Keys: len(r.keys)}
	start := time.Now()
	answer, err := c.poll(opts, r, p)
	took = time.Since(start)
	p.Took = took - p.Waited
	values := c.table.check(c.name, answer.Values)
	o := c.apply(func() outcome { return c.state.answer(r, values, answer.Epoch) })
	p.Failed = err != nil
	if !p.Failed {
		p.Changed, p.Unchanged, p.Removed = o.changed, o.unchanged, o.removed
	} else if c.table.ctx.Err() == nil {
		c.table.failed(c.name, len(r.keys), err)
	}
	c.table.observe(p)
	return took
}

func (c *Channel) poll(opts *channel.SharedPoll, r *request, p *observe.Polled) (answer channel.PollAnswer, err error) {
	start := time.Now()
	select {
	case c.table.slots <- struct{}{}:
	case <-c.table.ctx.Done():
		return answer, c.table.ctx.Err()
	}
	defer func() { <-c.table.slots }()
	p.Waited = time.Since(start)
	ctx, cancel := context.WithTimeout(c.table.ctx, cmp.Or(opts.Timeout, channel.DefaultPollTimeout))
	defer cancel()
	if !guard.Do(func() { answer, err = opts.Poll(ctx, c.name, r.keys) }, c.table.panicked) {
		return channel.PollAnswer{}, errPanic
	}
	if err != nil {
		return channel.PollAnswer{}, err
	}
	return answer, nil
}

func (c *Channel) apply(f func() outcome) outcome {
	c.applying.Lock()
	defer c.applying.Unlock()
	c.mu.Lock()
	o := f()
	epoch, generation := c.state.epoch, c.state.generation
	c.plan()
	c.mu.Unlock()
	for _, bad := range o.odd {
		c.table.ignored(c.name, bad)
	}
	if o.reset {
		c.table.reset(c.name, epoch, generation)
	}
	for i := range o.changes {
		c.table.post(c.name, generation, &o.changes[i])
	}
	return o
}

// Publish reports whether a published value is newer than the known one.
func (c *Channel) Publish(epoch string, v channel.KeyValue) bool {
	c.mu.Lock()
	versioned := c.state.opts.Versioned
	c.mu.Unlock()
	if !versioned {
		return false
	}
	values := c.table.check(c.name, []channel.KeyValue{v})
	o := c.apply(func() outcome { return c.state.publish(&values[0], epoch) })
	c.table.observe(&observe.Polled{Kind: observe.PollPublished, Channel: c.name, Changed: o.changed})
	return o.changed > 0
}

// Notify asks the application for the keys that some client tracks, and returns their number.
func (c *Channel) Notify(keys []string) (tracked int) {
	c.mu.Lock()
	for _, key := range keys {
		if e := c.state.keys[key]; e != nil && e.loopCount > 0 {
			tracked++
			c.state.note(e)
		}
	}
	c.gather()
	c.mu.Unlock()
	c.table.observe(&observe.Polled{Kind: observe.PollNotified, Channel: c.name, Keys: len(keys), Failed: tracked == 0})
	return tracked
}

// gather makes the keys of notifications urgent if there are enough, or else when the first of them has waited for the
// delay. The lock is held.
func (c *Channel) gather() {
	opts := c.state.opts
	switch {
	case len(c.state.noted) == 0 || c.closed:
	case opts.NotifyDelay <= 0 || len(c.state.noted) >= cmp.Or(opts.NotifyBatch, c.batchSize()):
		c.askNoted()
	case c.gathering == nil:
		c.gathering = time.AfterFunc(opts.NotifyDelay, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.askNoted()
		})
	}
}

func (c *Channel) askNoted() {
	if c.gathering != nil {
		c.gathering.Stop()
		c.gathering = nil
	}
	c.notified = c.state.hurryNoted() || c.notified
	c.plan()
}

func (c *Channel) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, t := range []*time.Timer{c.timer, c.gathering} {
		if t != nil {
			t.Stop()
		}
	}
}
