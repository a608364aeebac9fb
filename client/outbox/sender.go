package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/internal/backoff"
)

// sender sends entries one after another. Its goroutine lives while it has entries.
type sender struct {
	*Outbox
	name    string
	changed chan struct{} // has an element when an entry was added
	random  func() float64
	failed  int // attempts that count for the next wait

	queue []*Sending // under the lock of the outbox
}

func (l *sender) run() {
	for l.expire() {
		s, next := l.head()
		if s == nil {
			l.wait(next)
			continue
		}
		result, err := l.send(s)
		switch {
		case l.ctx.Err() != nil:
		case err == nil || !unsettled(err):
			l.failed = 0
			l.end(s, result, err)
		default:
			l.pause()
		}
	}
	l.mu.Lock()
	left := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, s := range left {
		s.err = client.ErrClosed
		close(s.done)
	}
}

// expire gives up entries that are too old, and reports whether there is more to do.
func (l *sender) expire() bool {
	for {
		var old *Sending
		l.mu.Lock()
		if l.ctx.Err() != nil {
			l.mu.Unlock()
			return false
		}
		for _, s := range l.queue {
			if stored(s) && !now().Before(s.Entry.Expires) {
				old = s
				break
			}
		}
		if len(l.queue) == 0 {
			delete(l.senders, l.name)
			l.mu.Unlock()
			return false
		}
		l.mu.Unlock()
		if old == nil {
			return true
		}
		l.end(old, nil, ErrExpired)
	}
}

func stored(s *Sending) bool {
	select {
	case <-s.kept:
		return true
	default:
		return false
	}
}

// head returns the first entry if it can be sent; otherwise, how long nothing expires.
func (l *sender) head() (*Sending, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isUp && len(l.queue) > 0 && stored(l.queue[0]) {
		return l.queue[0], 0
	}
	next := time.Hour // a clock that is set is noticed by then
	for _, s := range l.queue {
		next = min(next, s.Entry.Expires.Sub(now()))
	}
	return nil, max(next, time.Millisecond)
}

// wait returns when something may have changed.
func (l *sender) wait(next time.Duration) {
	l.mu.Lock()
	up, kept := l.up, make(<-chan struct{})
	if len(l.queue) > 0 && !stored(l.queue[0]) {
		up, kept = nil, l.queue[0].kept
	}
	l.mu.Unlock()
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-up:
	case <-kept:
	case <-l.changed:
	case <-timer.C:
	case <-l.ctx.Done():
	}
}

// send waits while the client subscribes to the channel, which may take publications of its subscribers alone.
func (l *sender) send(s *Sending) ([]byte, error) {
	data := l.options.WithKey(s.Entry)
	if s.Entry.Kind == RPC {
		return l.client.RPC(l.ctx, s.Entry.To, data)
	}
	if sub := l.client.Subscription(s.Entry.To); sub != nil {
		if state, _ := sub.State(); state == client.Subscribing {
			ctx, cancel := context.WithDeadline(l.ctx, s.Entry.Expires)
			defer cancel()
			if sub.Ready(ctx) != nil && ctx.Err() != nil {
				return nil, client.ErrTimeout
			}
		}
	}
	return nil, l.client.Publish(l.ctx, s.Entry.To, data)
}

// unsettled: the entry was not sent, or its effect is unknown, or the server wants it later.
func unsettled(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && (e.Temporary || e.Code < 100)
}

// pause waits before an entry is sent again. Without a connection, the next one is waited for instead.
func (l *sender) pause() {
	l.connection()
	l.mu.Lock()
	up := l.isUp
	l.mu.Unlock()
	if !up {
		return
	}
	timer := time.NewTimer(backoff.Pause(l.options.MinDelay, l.options.MaxDelay, &l.failed, l.random))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	}
}

func (l *sender) end(s *Sending, result []byte, err error) {
	if !l.remove(s) {
		return
	}
	s.result, s.err = result, err
	l.telling.Lock()
	close(s.done)
	l.options.Outcome(Outcome{s.Entry, result, err})
	l.telling.Unlock()
	if l.options.Store == nil {
		return
	}
	if err := l.options.Store.Delete(s.Entry.ID); err != nil {
		l.options.Logger.Warn("an entry of the outbox is not removed from its store, so it may be sent again after a restart",
			"kind", s.Entry.Kind, "to", s.Entry.To, "error", err)
	}
}
