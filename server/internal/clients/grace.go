package clients

import (
	"sync"
	"time"
)

// grace is how long a connection or subscription lives on after each refresh without an answer.
const grace = 60 * time.Second

// unanswered knows since when refresh proxies give no answer. The zero value is ready; any goroutine may use it.
type unanswered struct {
	mu     sync.Mutex
	things map[thing]span
	swept  time.Time
}

type thing struct{ client, channel string }

type span struct{ first, latest time.Time }

// prolong notes a question without an answer, and returns when to ask again. It reports false if the first one was limit
// ago; 0 or less: no limit.
func (u *unanswered) prolong(t thing, limit time.Duration) (until time.Time, ok bool) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sweep(now)
	s, known := u.things[t]
	if !known {
		s.first = now
	}
	until = now.Add(grace)
	if limit > 0 {
		end := s.first.Add(limit)
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

func (u *unanswered) answered(t thing) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.things, t)
}

// sweep forgets things that were not asked about for some time: they have ended.
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
