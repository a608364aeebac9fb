package loop

import (
	"time"

	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/transport"
)

// socketBuffer is the most bytes that one read takes from a socket.
const socketBuffer = 64 << 10

// Sockets is a loop as a transport.Loop.
type Sockets Loop

// Sockets returns l as transports see it.
func (l *Loop) Sockets() *Sockets { return (*Sockets)(l) }

// Loop returns the loop as the node sees it.
func (s *Sockets) Loop() *Loop { return (*Loop)(s) }

func (s *Sockets) Post(f func()) bool { return s.Loop().Post(Func(f)) }

// Watch makes the loop's poller for the first socket: a program without sockets has none.
func (s *Sockets) Watch(fd int, w transport.Watcher, read, write bool) error {
	if s.poller == nil {
		p, err := poll.New()
		if err != nil {
			return err
		}
		s.poller = p
		go p.Wait(s.Loop().signal)
	}
	return s.poller.Watch(fd, w, read, write)
}

func (s *Sockets) Change(fd int, read, write bool) error { return s.poller.Change(fd, read, write) }

func (s *Sockets) Unwatch(fd int) { s.poller.Unwatch(fd) }

func (s *Sockets) Forget(fd int) { s.poller.Forget(fd) }

func (s *Sockets) Buffer() []byte {
	if s.buffer == nil {
		s.buffer = make([]byte, socketBuffer)
	}
	return s.buffer
}

func (s *Sockets) After(d time.Duration, f func()) transport.Timer {
	a := &delayed{loop: s.Loop(), f: f}
	a.loop.Schedule(a, a.loop.Now()+int64(d))
	return a
}

type delayed struct {
	loop  *Loop
	timer Timer
	f     func()
}

func (a *delayed) Timer() *Timer { return &a.timer }
func (a *delayed) Tick()         { a.f() }
func (a *delayed) Stop()         { a.loop.Schedule(a, 0) }
