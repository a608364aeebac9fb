package front

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Arrival is a request whose connection a route may take. It is good until the call ends
// that it was given to.
type Arrival struct {
	*Request
	// Ctx has the values of the server's BaseContext, and is never done.
	Ctx context.Context
	// Loop watches the socket FD, which is non-blocking.
	Loop transport.Loop
	FD   uintptr
	// Early are bytes that followed the request.
	Early []byte

	gate Gate
	fate fate
}

// fate of an Arrival's connection.
type fate int

const (
	undecided fate = iota // net/http gets the request
	taken                 // it belongs to the route
	answered              // the request was refused; net/http gets what follows
	lost                  // it is to be closed
)

// Take passes the gate, sends answer, the head of an answer of that status, and gives the
// connection to the caller. Loop goes on watching the socket. If Take reports false the
// connection was refused or lost, and everything that follows is the front's business.
func (a *Arrival) Take(status int, answer []byte) bool {
	if f := a.gate.Enter(a.Request); f != nil {
		status, answer, a.fate = f.Status, f.answer(), answered
	} else {
		a.fate = taken
	}
	if n, err := netio.TryWrite(a.FD, [][]byte{answer}); err != nil || n != len(answer) {
		a.fate = lost // it has sent nothing before, so a socket that is good takes it at once
	}
	a.gate.Leave(a.Request, status)
	return a.fate == taken
}

// answer serves a request that is complete at end.
func (in *intake) answer(n *newcomer, r *route, data []byte, end int) {
	q := &in.request
	if !q.parse(string(data[:end])) || !r.wants(q) {
		in.handOver(n, data, false)
		return
	}
	q.RemoteAddr = n.remote.String()
	a := &in.arrival
	*a = Arrival{Request: q, Ctx: in.front.ctx, Loop: in.loop, FD: uintptr(n.fd), Early: append([]byte(nil), data[end:]...), gate: r.Gate}
	in.front.offer(r, a)
	switch a.fate {
	case undecided:
		in.handOver(n, data, false)
	case answered:
		in.handOver(n, a.Early, false)
	case lost:
		in.loop.Unwatch(int(n.fd))
		netio.CloseFD(uintptr(n.fd), false)
	}
	*a = Arrival{}
	q.reset()
}

// offer lets the route take a connection. A panic before it did ends the connection, and is
// logged as net/http does; one afterwards is the loop's business.
func (l *Listener) offer(r *route, a *Arrival) {
	returned := false
	defer func() {
		if !returned && a.fate != taken {
			l.recovered(recover(), a.RemoteAddr)
			if a.fate == undecided {
				r.Gate.Leave(a.Request, http.StatusInternalServerError)
			}
			a.fate = lost
		}
	}()
	r.Take(a)
	returned = true
}

// recovered logs what a route panicked with.
func (l *Listener) recovered(p any, remote string) {
	if p != http.ErrAbortHandler { //nolint:errorlint // p is any value
		l.logf("http: panic serving %v: %v\n%s", remote, p, debug.Stack())
	}
}
