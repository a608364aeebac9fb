package clients

import (
	"sync"
	"time"
)

// grace is how long a connection or subscription lives on each time that its refresh proxy gives no answer.
const grace = 60 * time.Second

// unanswered knows since when refresh proxies give no answer about connections and subscriptions. Its zero value is ready. Its
// methods may be called from any goroutine.
type unanswered struct {
	mu     sync.Mutex
	things map[thing]span
	swept  time.Time
}

// thing is a connection, or its subscription to a channel.
type thing struct{ client, channel string }

// span has the times of the first and the latest question without an answer.
type span struct{ first, latest time.Time }

// prolong notes that there is no answer, and returns when to ask again. It reports false if there has been none for most, so
// that the thing ends; 0 for no bound.
func (u *unanswered) prolong(t thing, most time.Duration) (until time.Time, ok bool) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sweep(now)
	s, known := u.things[t]
	if !known {
		s.first = now
	}
	until = now.Add(grace)
	if most > 0 {
		end := s.first.Add(most)
		if !now.Before(end) {
			delete(u.things, t)
			return end, false
		}
		if end.Before(until) {
			until = end
		}
	}
	if u.things == nil {
		u.things = make(map[thing]span)
	}
	s.latest = now
	u.things[t] = s
	return until, true
}

// answered notes that there is an answer.
func (u *unanswered) answered(t thing) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.things, t)
}

// sweep forgets things that have not been asked about for some time, because they have ended without an answer.
func (u *unanswered) sweep(now time.Time) {
	if now.Sub(u.swept) < grace {
		return
	}
	u.swept = now
	for t, s := range u.things {
		if now.Sub(s.latest) > 3*grace {
			delete(u.things, t)
		}
	}
}
