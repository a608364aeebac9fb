package route

import (
	"context"
	"sync"
	"time"
)

const (
	// leaveDelay is the least time between the leave of the last subscriber and the call of the broker.
	leaveDelay = time.Second
	retryPause = 500 * time.Millisecond
	// leaveBatch bounds the channels of a call of the broker, leavers the calls at a time.
	leaveBatch = 512
	leavers    = 8
	// leaveTimeout bounds a call. A new subscriber of one of its channels waits for the call.
	leaveTimeout = 5 * time.Second
)

// leaver unsubscribes at the broker from channels without subscribers: after a second, because clients often come back
// at once, and many by one call, because a node that loses its load balancer loses all. It repeats a call that fails,
// because otherwise the broker would deliver for ever.
type leaver struct {
	table *Table
	ctx   context.Context // ends with close
	end   context.CancelFunc
	work  sync.WaitGroup
	slots chan struct{}

	mu sync.Mutex
	// queue is ordered by due. A goroutine serves it while it is not empty.
	queue  []departure
	served bool
	closed bool
}

// departure is a channel to be left. It is a user of the route.
type departure struct {
	ch    string
	route *Route
	due   time.Time
}

type departureState uint8

const (
	staying departureState = iota // it is not there
	leaving
	returned // it has got a subscriber there, which may have gone again
)

func newLeaver(t *Table) *leaver {
	l := &leaver{table: t, slots: make(chan struct{}, leavers)}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

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

func (l *leaver) serve() {
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
		case !l.pause(wait):
			return
		}
	}
}

// pause returns false at once when the leaver is closed.
func (l *leaver) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.ctx.Done():
		return false
	}
}

// next takes a batch that is due, or returns how long to wait for one; 0 if the queue is empty.
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

// leave unsubscribes from the channels that still have no subscribers, until the broker has done it.
func (l *leaver) leave(batch []departure) {
	for {
		batch = l.lock(batch)
		if len(batch) == 0 || l.unsubscribe(batch) || !l.pause(retryPause) {
			return
		}
	}
}

// lock returns the departures that are still to be left, with their routes locked, so that new subscribers wait. It
// holds other locks, so it waits for none: if a client is just coming or going, it queues the departure again.
func (l *leaver) lock(batch []departure) []departure {
	var later []departure
	alone := batch[:0]
	for _, d := range batch {
		r := d.route
		switch {
		case !r.mu.tryLock():
			later = append(later, d)
		case !r.loops.empty():
			r.departure = staying
			r.mu.unlock()
			l.table.release(d.ch, r)
		case r.departure == returned: // and left again meanwhile, so the delay begins anew
			r.departure = leaving
			r.mu.unlock()
			later = append(later, d)
		default:
			alone = append(alone, d)
		}
	}
	l.add(later...)
	return alone
}

func (l *leaver) unsubscribe(batch []departure) bool {
	channels := make([]string, len(batch))
	for i, d := range batch {
		channels[i] = d.ch
		d.route.subscribed = false // also after an error the broker may have done it
	}
	ctx, cancel := context.WithTimeout(l.ctx, leaveTimeout)
	defer cancel()
	err := l.table.broker.Unsubscribe(ctx, channels...)
	for _, d := range batch {
		if err != nil {
			d.route.mu.unlock()
			continue
		}
		d.route.departure = staying
		d.route.mu.unlock()
		l.table.release(d.ch, d.route)
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
