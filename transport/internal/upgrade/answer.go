package upgrade

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"runtime/debug"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Arrival is a request that may become a connection without Server.Handler. It is
// good until the call ends that it was given to.
type Arrival struct {
	*Request
	// Ctx is what Server.Handler would see.
	Ctx    context.Context
	Remote netip.AddrPort
	// Loop watches the socket FD, which is non-blocking. They belong to who takes them.
	Loop transport.Loop
	FD   uintptr
	// Early are bytes that followed the request.
	Early []byte

	taken bool
}

// Take takes the connection and sends answer, a response of status 101. It reports
// false if the connection is of no use, and closed.
func (a *Arrival) Take(answer []byte) bool {
	a.taken = true
	if !write(a.FD, answer) {
		discard(a.Loop, a.FD)
		return false
	}
	return true
}

// write sends to a socket that has sent nothing so far, and so takes it at once.
func write(fd uintptr, b []byte) bool {
	n, err := netio.TryWrite(fd, [][]byte{b})
	return err == nil && n == len(b)
}

// discard closes a connection that the loop watches.
func discard(l transport.Loop, fd uintptr) {
	l.Unwatch(int(fd))
	netio.CloseFD(fd, false)
}

// answer serves a request that is complete at end.
func (in *intake) answer(o *opening, data []byte, end int) {
	q := &in.request
	if !q.parse(string(data[:end]), in.listener.cfg.Protocol) {
		in.handOver(o, bytes.Clone(data))
		return
	}
	in.serve(o, q, bytes.Clone(data[end:]))
	q.reset()
}

func (in *intake) serve(o *opening, q *Request, early []byte) {
	l, fd := in.listener, uintptr(o.fd)
	if l.cfg.Direct != nil {
		a := &in.arrival
		*a = Arrival{Request: q, Ctx: l.ctx, Remote: o.remote, Loop: in.loop, FD: fd, Early: early}
		ok := l.askDirect(a)
		taken := a.taken
		*a = Arrival{}
		switch {
		case taken:
			return
		case !ok:
			discard(in.loop, fd)
			return
		}
	}
	w := &Response{owner: l.cfg.Owner, header: make(http.Header)}
	if !l.ask(w, q.http(l.ctx, o.remote.String())) || !w.send(fd) {
		discard(in.loop, fd)
		return
	}
	if w.start == nil {
		in.handOver(o, early)
		return
	}
	w.start(in.loop, fd, early)
}

// askDirect reports false for a panic before the connection was taken.
func (l *listener) askDirect(a *Arrival) (ok bool) {
	defer func() {
		if !a.taken && !ok {
			l.recovered(recover(), a.Remote.String())
		}
	}()
	l.cfg.Direct(a)
	return true
}

// ask lets the server's handler answer, and reports false if it panicked.
func (l *listener) ask(w *Response, r *http.Request) (ok bool) {
	defer func() {
		if !ok {
			l.recovered(recover(), r.RemoteAddr)
		}
	}()
	l.serve.ServeHTTP(w, r)
	return true
}

// recovered logs the panic of a handler, as net/http does.
func (l *listener) recovered(p any, remote string) {
	if p != http.ErrAbortHandler { //nolint:errorlint // p is any value
		l.logf("http: panic serving %v: %v\n%s", remote, p, debug.Stack())
	}
}
