// Package lane does what may block for a client, one thing after the other.
package lane

import (
	"slices"
	"sync"

	"github.com/gyrohq/gyro/internal/session"
)

// Lane does the effects of one client off its loop, in their order. It holds a
// goroutine only while there is something to do. Any goroutine may use it.
type Lane struct {
	mu        sync.Mutex
	queue     []session.Effect
	running   int
	exclusive bool
}

// concurrent effects may overtake each other if the application wants so.
func concurrent(e session.Effect) bool {
	switch e.(type) {
	case *session.Publish, *session.Presence, *session.PresenceStats, *session.History, *session.RPC, *session.Message:
		return true
	}
	return false
}

// Idle tells whether everything that was pushed is done. A nil lane is.
func (l *Lane) Idle() bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running == 0 && len(l.queue) == 0
}

// Push queues e and reports whether the caller has to start a worker.
func (l *Lane) Push(e session.Effect, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, e)
	if !l.ready(most) {
		return false
	}
	l.running++
	return true
}

// PushAhead queues e before everything else. An exclusive effect must be running,
// whose worker takes it.
func (l *Lane) PushAhead(e session.Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = slices.Insert(l.queue, 0, e)
}

// ready tells whether the head of the queue may start beside what runs.
func (l *Lane) ready(most int) bool {
	switch {
	case len(l.queue) == 0:
		return false
	case l.running == 0:
		return true
	}
	return !l.exclusive && l.running < most && concurrent(l.queue[0])
}

// Next gives a worker its next effect, and reports whether it is to start
// another worker. With nil the worker ends.
func (l *Lane) Next(most int) (e session.Effect, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.running == 0 {
		l.exclusive = false
	}
	if !l.ready(most) {
		if len(l.queue) == 0 && l.running == 0 {
			l.queue = nil
		}
		return nil, false
	}
	e = l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.running++
	l.exclusive = !concurrent(e)
	if l.ready(most) {
		l.running++
		more = true
	}
	return e, more
}
