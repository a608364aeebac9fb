package route

import (
	"context"
	"sync"
	"time"
)

const (
	// leaveDelay is the least time between the last subscriber's leaving and the
	// broker's unsubscribe, retryPause that between two attempts (engines.md 6).
	leaveDelay = time.Second
	retryPause = 500 * time.Millisecond
	// leaveBatch is how many channels one call of the broker leaves at most, leavers
	// how many calls there are at a time.
	leaveBatch = 512
	leavers    = 8
	// leaveTimeout bounds a call. Who subscribes to one of its channels meanwhile
	// waits for it.
	leaveTimeout = 5 * time.Second
)

// leaver unsubscribes from channels that nobody subscribes to any more. It does so
// later, because clients often come back at once, many at a time, because a node
// that lost a load balancer loses all its channels, and until the broker agrees,
// because what it failed to leave it would deliver for ever.
type leaver struct {
	table *Table
	ctx   context.Context // ends with close
	end   context.CancelFunc
	work  sync.WaitGroup
	slots chan struct{}

	mu sync.Mutex
	// queue is in the order of due. A goroutine serves it while it holds something.
	queue  []departure
	served bool
	closed bool
}

// departure is a channel to be left. It holds a use of the route.
type departure struct {
	ch    string
	route *Route
	due   time.Time
}

func newLeaver(t *Table) *leaver {
	l := &leaver{table: t, slots: make(chan struct{}, leavers)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// add queues departures, which are due after leaveDelay.
func (l *leaver) add(ds ...departure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(ds) == 0 {
		return
	}
	due := time.Now().Add(leaveDelay)
	for _, d := range ds {
		d.due = due
		l.queue = append(l.queue, d)
	}
	if !l.served {
		l.served = true
		l.work.Go(l.serve)
	}
}

// serve hands out what is due, until nothing is queued.
func (l *leaver) serve() {
	timer := time.NewTimer(leaveDelay)
	defer timer.Stop()
	for {
		batch, wait := l.next()
		switch {
		case len(batch) > 0:
			select {
			case l.slots <- struct{}{}:
				l.work.Go(func() {
					defer func() { <-l.slots }()
					l.leave(batch)
				})
			case <-l.ctx.Done():
				return
			}
		case wait == 0:
			return
		default:
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-l.ctx.Done():
				return
			}
		}
	}
}

// next takes a batch that is due, or tells how long to wait for one; 0 if there is
// nothing to wait for.
func (l *leaver) next() (batch []departure, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || l.closed {
		l.queue, l.served = nil, false
		return nil, 0
	}
	now := time.Now()
	n := 0
	for n < min(len(l.queue), leaveBatch) && !now.Before(l.queue[n].due) {
		n++
	}
	if n == 0 {
		return nil, l.queue[0].due.Sub(now)
	}
	batch = append(batch, l.queue[:n]...)
	clear(l.queue[:n])
	l.queue = l.queue[n:]
	return batch, 0
}

// leave unsubscribes from the channels of a batch, as far as they have no
// subscribers, until the broker has done so.
func (l *leaver) leave(batch []departure) {
	for len(batch) > 0 {
		if batch = l.lock(batch); len(batch) == 0 {
			return
		}
		if l.unsubscribe(batch) {
			return
		}
		pause := time.NewTimer(retryPause)
		select {
		case <-pause.C:
		case <-l.ctx.Done():
			pause.Stop()
			return
		}
	}
}

// lock returns what is still to be left, with the locks of its routes held, so that
// a subscriber who comes back waits. It waits for no lock itself, as it holds others:
// somebody is coming or going there, and the channel is looked at again later.
func (l *leaver) lock(batch []departure) []departure {
	var later []departure
	alone := batch[:0]
	for _, d := range batch {
		r := d.route
		switch {
		case !r.mu.TryLock():
			later = append(later, d)
		case !r.loops.empty():
			r.leaving, r.returned = false, false
			r.mu.Unlock()
			l.table.release(d.ch, r)
		case r.returned: // and left again, later than d tells
			r.returned = false
			r.mu.Unlock()
			later = append(later, d)
		default:
			alone = append(alone, d)
		}
	}
	l.add(later...)
	return alone
}

// unsubscribe leaves channels whose locks are held, and frees these.
func (l *leaver) unsubscribe(batch []departure) bool {
	channels := make([]string, len(batch))
	for i, d := range batch {
		channels[i] = d.ch
		// Whatever the broker answers: it may be unsubscribed.
		d.route.subscribed = false
	}
	ctx, cancel := context.WithTimeout(l.ctx, leaveTimeout)
	defer cancel()
	err := l.table.broker.Unsubscribe(ctx, channels...)
	for _, d := range batch {
		d.route.leaving = err != nil
		d.route.mu.Unlock()
		if err == nil {
			l.table.release(d.ch, d.route)
		}
	}
	return err == nil
}

func (l *leaver) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
	l.work.Wait()
}
