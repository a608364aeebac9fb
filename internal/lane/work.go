package lane

import (
	"github.com/gyrohq/gyro/internal/contain"
	"github.com/gyrohq/gyro/internal/session"
)

// Host is the client that a lane is of.
type Host interface {
	// Execute does an effect. It may block.
	Execute(e session.Effect)
	// Executed takes an effect back that completes. It closes done, unless that is nil,
	// when what follows from it has been pushed; or it reports false.
	Executed(e session.Effect, done chan struct{}) bool
	// Panicked tells that Execute did.
	Panicked(reason any, stack []byte)
}

// Work starts a worker, as Push asked for. It does effects, most of them side by side,
// until there is none that it may start. All workers are counted in t.
func (l *Lane) Work(h Host, most int, t *Tally) {
	t.Add()
	go l.work(h, most, t)
}

func (l *Lane) work(h Host, most int, t *Tally) {
	defer t.Done()
	for {
		e, more := l.Next(most)
		if more {
			l.Work(h, most, t)
		}
		if e == nil {
			return
		}
		// After a panic the lane goes on, with the undoing of what was established above all.
		contain.Do(func() { h.Execute(e) }, h.Panicked)
		switch {
		case !Completes(e):
		case begins(e):
			// What continues these comes before the next effect.
			done := make(chan struct{})
			if h.Executed(e, done) {
				<-done
			}
		default:
			h.Executed(e, nil)
		}
	}
}

// Completes tells whether the session waits for an effect.
func Completes(e session.Effect) bool {
	switch e.(type) {
	case *session.Connected, *session.Join, *session.Renew, *session.Close:
		return false
	}
	return true
}

// begins tells whether another effect may continue e.
func begins(e session.Effect) bool {
	switch e.(type) {
	case *session.Connecting, *session.Subscribing, *session.Attach:
		return true
	}
	return false
}
