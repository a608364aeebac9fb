package front

import (
	"bytes"
	"context"
	"net/http"
	"runtime/debug"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// Arrival is a request whose connection a route may take. It is valid during Route.Take only.
type Arrival struct {
	*Request
	// Ctx has the values of the server's BaseContext, and is never done.
	Ctx context.Context
	// Loop watches FD, which is non-blocking.
	Loop transport.Loop
	FD   uintptr
	Body []byte
	// Early has the bytes that followed the request.
	Early []byte
	// TLS lies between the socket and the protocol, for the transports of this module; nil: plaintext. Others must leave
	// the connection to net/http then.
	TLS *netio.TLS

	conn  *loopConn
	route *route
	state arrivalState
}

type arrivalState int

const (
	undecided arrivalState = iota // net/http gets the request
	taken
	deferred
	answered // the request was refused; net/http gets the requests after it
	lost
)

// Take gives the connection to the caller if the request may pass the gate. It sends answer, the beginning of an answer
// with this status, and the fields of Advertise. Loop goes on watching the socket. False: the request was refused or the
// connection lost; nothing is left to do.
func (a *Arrival) Take(status int, answer []byte) bool {
	f := a.route.Gate.Enter(a.Request)
	a.state, a.Sent = taken, -1
	if f != nil {
		status, answer, a.state = f.Status, f.answer(), answered
		a.Sent = len(f.Text) + 1
	}
	a.send(status, answer)
	return a.state == taken
}

// send sends an answer, or its head, with the fields of Advertise. The request leaves the gate.
func (a *Arrival) send(status int, answer []byte) {
	frames, size := [][]byte{answer}, len(answer)
	if fields := a.route.advertise(a.Request, nil); len(fields) > 0 {
		line := bytes.IndexByte(answer, '\n') + 1
		frames, size = [][]byte{answer[:line], fields, answer[line:]}, size+len(fields)
	}
	n, err := a.conn.write(frames)
	if err != nil || n < size || a.conn.stuck() {
		a.state = lost // nothing was sent before, so a good socket takes the answer at once
	}
	a.route.Gate.Leave(a.Request, status)
}

// answer offers the request that was parsed to Take; its head ends at end.
func (in *intake) answer(n *loopConn, r *route, data []byte, end int) {
	q := in.requestOf(n)
	q.RemoteAddr = n.remote.String()
	body, early := data[end:q.end(end)], data[q.end(end):]
	a := &in.arrival
	*a = Arrival{
		Request: q, Ctx: in.front.ctx, Loop: in.loop, FD: uintptr(n.fd),
		Body: body, Early: append([]byte(nil), early...), TLS: n.layer(), conn: n, route: r,
	}
	in.front.offer(a)
	switch a.state {
	case undecided:
		in.handOver(n, data, false)
	case answered:
		in.handOver(n, a.Early, false)
	case lost:
		in.lose(n)
	}
	*a = Arrival{}
	q.reset()
}

// offer calls Take. After a panic before the connection was taken, or while an answer is deferred, it closes the
// connection and logs the panic; the loop handles a later one.
func (l *Listener) offer(a *Arrival) {
	returned := false
	defer func() {
		if returned || a.state == taken {
			return
		}
		l.recovered(recover(), a.RemoteAddr)
		if a.state == deferred {
			if a.conn.deferred == nil {
				return // it was answered, or the client has gone
			}
			a.conn.deferred = nil
			l.serving.Done()
			a.state = undecided
		}
		if a.state == undecided {
			a.route.Gate.Leave(a.Request, http.StatusInternalServerError)
		}
		a.state = lost
	}()
	a.route.Take(a)
	returned = true
}

func (l *Listener) recovered(p any, remote string) {
	if p != http.ErrAbortHandler { //nolint:errorlint // p is any value
		l.logf("http: panic serving %v: %v\n%s", remote, p, debug.Stack())
	}
}
