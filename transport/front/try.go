package front

import (
	"bytes"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// last keeps the last request of a connection that a route's Try has answered.
type last struct {
	request Request // the next one may have the same head
	route   *route  // of request
	addr    string  // of the client
}

// requestOf returns where the request of n is parsed.
func (in *intake) requestOf(n *newcomer) *Request {
	if n.last != nil {
		return &n.last.request
	}
	return &in.request
}

// try lets a route answer the request that was parsed; its head ends at end.
func (in *intake) try(n *newcomer, r *route, data []byte, end int) {
	if n.last == nil {
		n.last = &last{request: in.request, route: r, addr: n.remote.String()}
		in.request = Request{}
	}
	q := &n.last.request
	q.RemoteAddr = n.last.addr
	stop := q.end(end)
	answer, ends, next, ok := in.tried(q, r, data[end:stop])
	switch {
	case !ok || answer != nil && (!n.send(answer) || ends):
		in.lose(n)
	case answer != nil:
		in.answered(n, data[stop:])
	case next != nil:
		in.move(n, next, data)
	default:
		in.handOver(n, data, true)
	}
}

// send reports whether the socket took a whole answer.
func (n *newcomer) send(answer []byte) bool {
	sent, err := n.write([][]byte{answer})
	return err == nil && sent == len(answer) && !n.stuck()
}

// tried calls Try of the route. It returns the answer, or the loop that is to try next. ok is false after
// a panic.
func (in *intake) tried(q *Request, r *route, body []byte) (answer []byte, ends bool, next transport.Loop, ok bool) {
	defer func() {
		if !ok {
			in.front.recovered(recover(), q.RemoteAddr)
		}
	}()
	answer, ends = in.reply(q, r, func(out []byte) (status int, _ []byte) {
		status, next = r.Try(in.loop, q, body)
		return status, out
	})
	return answer, ends, next, true
}

// answered waits for the next request on a connection. rest has the bytes of it that came already.
func (in *intake) answered(n *newcomer, rest []byte) {
	in.trim()
	if len(n.last.request.head) > maxKept {
		n.last = nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	n.scanned, n.whole = 0, 0
	switch {
	case in.closed:
		in.drop(n)
	case len(rest) > 0:
		in.postpone(n, rest)
	default:
		in.await(&in.kept, n)
	}
}

// postpone posts a task that looks at the bytes that were received already: other connections come first. Until then
// nothing more is read.
func (in *intake) postpone(n *newcomer, data []byte) {
	in.await(&in.waiting, n)
	n.append(data)
	n.more = in.loop.Post(func() {
		n.more = false
		in.serve(n, in.look)
	})
	in.hold(n)
}

// look does the work of read, without reading.
func (in *intake) look(n *newcomer) (data []byte, r *route, end int, o outcome) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if n.gone {
		return nil, nil, 0, partial
	}
	if r, end, o = in.examine(n, n.b.B); o != partial {
		in.remove(n)
	}
	return n.b.B, r, end, o
}

// move brings a connection to another loop. data was read and not answered.
func (in *intake) move(n *newcomer, next transport.Loop, data []byte) {
	in.loop.Unwatch(int(n.fd))
	n.intake = in.front.intake(next)
	data = bytes.Clone(data)
	if !next.Post(func() { n.intake.adopt(n, data) }) {
		netio.CloseFD(uintptr(n.fd), false)
	}
}

// adopt goes on with a connection of another loop.
func (in *intake) adopt(n *newcomer, data []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.front.isClosing() || in.loop.Watch(int(n.fd), n, true, false) != nil {
		netio.CloseFD(uintptr(n.fd), false)
		return
	}
	n.scanned, n.whole = 0, 0
	in.postpone(n, data)
}
