package loop

import (
	"time"

	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/transport"
)

// socketBuffer is what one read takes at most from a socket.
const socketBuffer = 64 << 10

// Sockets is a loop as transports see it: one that watches sockets.
type Sockets Loop

// Sockets of the loop.
func (l *Loop) Sockets() *Sockets { return (*Sockets)(l) }

// Loop is the loop itself.
func (s *Sockets) Loop() *Loop { return (*Loop)(s) }

// Post implements transport.Loop.
func (s *Sockets) Post(f func()) bool { return s.Loop().Post(Func(f)) }

// Watch implements transport.Loop. With the first socket the loop begins to look
// for them: a program that has none does not pay.
func (s *Sockets) Watch(fd int, w transport.Watcher, read, write bool) error {
	if s.poller == nil {
		p, err := poll.New()
		if err != nil {
			return err
		}
		s.poller = p
		go s.Loop().wait()
	}
	return s.poller.Watch(fd, w, read, write)
}

// Change implements transport.Loop.
func (s *Sockets) Change(fd int, read, write bool) error { return s.poller.Change(fd, read, write) }

// Unwatch implements transport.Loop.
func (s *Sockets) Unwatch(fd int) { s.poller.Unwatch(fd) }

// Buffer implements transport.Loop.
func (s *Sockets) Buffer() []byte {
	if s.buffer == nil {
		s.buffer = make([]byte, socketBuffer)
	}
	return s.buffer
}

// After implements transport.Loop.
func (s *Sockets) After(d time.Duration, f func()) transport.Timer {
	a := &delayed{loop: s.Loop(), f: f}
	a.loop.Schedule(a, a.loop.Now()+int64(d))
	return a
}

// delayed is a call that is due.
type delayed struct {
	loop  *Loop
	timer Timer
	f     func()
}

func (a *delayed) Timer() *Timer { return &a.timer }
func (a *delayed) Tick()         { a.f() }
func (a *delayed) Stop()         { a.loop.Schedule(a, 0) }

// wait wakes the loop when sockets are ready. It lets the loop serve them before
// it looks again.
func (l *Loop) wait() {
	served := Func(func() { l.polled <- struct{}{} })
	for l.poller.Wait() == nil && l.Post(served) {
		<-l.polled
	}
}
