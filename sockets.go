package gyro

import (
	"time"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/transport"
)

// socketBuffer is what one read takes at most from a socket.
const socketBuffer = 64 << 10

// socketLoop is the shard as a transport sees it.
type socketLoop shard

func (l *socketLoop) Post(f func()) bool { return l.loop.Post(loop.Func(f)) }

// Watch begins to serve sockets with the first one: a program that has none does
// not pay.
func (l *socketLoop) Watch(fd int, w transport.Watcher, read, write bool) error {
	if l.poller == nil {
		p, err := poll.New()
		if err != nil {
			return err
		}
		l.poller = p
		l.loop.Serve(p)
	}
	return l.poller.Watch(fd, w, read, write)
}

func (l *socketLoop) Change(fd int, read, write bool) error {
	return l.poller.Change(fd, read, write)
}

func (l *socketLoop) Unwatch(fd int) { l.poller.Unwatch(fd) }

func (l *socketLoop) Buffer() []byte {
	if l.buffer == nil {
		l.buffer = make([]byte, socketBuffer)
	}
	return l.buffer
}

func (l *socketLoop) After(d time.Duration, f func()) transport.Timer {
	a := &alarm{loop: l.loop, f: f}
	l.loop.Schedule(a, l.loop.Now()+int64(d))
	return a
}

// alarm is a call that is due.
type alarm struct {
	loop  *loop.Loop
	timer loop.Timer
	f     func()
}

func (a *alarm) Timer() *loop.Timer { return &a.timer }
func (a *alarm) Tick()              { a.f() }
func (a *alarm) Stop()              { a.loop.Schedule(a, 0) }
