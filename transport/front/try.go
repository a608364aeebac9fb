package front

import (
	"bytes"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

type lastRequest struct {
	request Request // the next one may have the same head
	route   *route  // of request
	addr    string  // of the client
}

func (in *intake) requestOf(n *loopConn) *Request {
	if n.last != nil {
		return &n.last.request
	}
	return &in.request
}

// try calls Try with the request that was parsed; its head ends at end.
func (in *intake) try(n *loopConn, r *route, data []byte, end int) {
	if n.last == nil {
		n.last = &lastRequest{request: in.request, route: r, addr: n.remote.String()}
		in.request = Request{}
	}
	q := &n.last.request
	q.RemoteAddr = n.last.addr
	stop := q.end(end)
	answer, closes, next, ok := in.callTry(q, r, data[end:stop])
	switch {
	case !ok || answer != nil && (!n.send(answer) || closes):
		in.lose(n)
	case answer != nil:
		in.answered(n, data[stop:])
	case next != nil:
		in.move(n, next, data)
	default:
		in.handOver(n, data, true)
	}
}

func (n *loopConn) send(answer []byte) bool {
	sent, err := n.write([][]byte{answer})
	return err == nil && sent == len(answer) && !n.stuck()
}

// callTry returns the answer, or the loop that is to try next; !ok: Try panicked.
func (in *intake) callTry(q *Request, r *route, body []byte) (answer []byte, closes bool, next transport.Loop, ok bool) {
	defer func() {
		if !ok {
			in.front.recovered(recover(), q.RemoteAddr)
		}
	}()
	answer, closes = in.reply(q, r, func(out []byte) (status int, _ []byte) {
		status, next = r.Try(in.loop, q, body)
		return status, out
	})
	return answer, closes, next, true
}

func (in *intake) answered(n *loopConn, rest []byte) {
	in.trim()
	if len(n.last.request.head) > maxIdleBuffer {
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
		in.await(&in.idle, n)
	}
}

// postpone posts a task that looks at bytes that came already: other connections go first. Until then nothing is read.
func (in *intake) postpone(n *loopConn, data []byte) {
	in.await(&in.waiting, n)
	n.append(data)
	n.lookPosted = in.loop.Post(func() {
		n.lookPosted = false
		in.serve(n, in.look)
	})
	in.limitBuffered(n)
}

func (in *intake) look(n *loopConn) (data []byte, r *route, end int, m matchState) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if n.gone {
		return nil, nil, 0, partial
	}
	if r, end, m = in.examine(n, n.b.B); m != partial {
		in.remove(n)
	}
	return n.b.B, r, end, m
}

func (in *intake) move(n *loopConn, next transport.Loop, data []byte) {
	in.loop.Unwatch(int(n.fd))
	n.intake = in.front.intake(next)
	data = bytes.Clone(data)
	if !next.Post(func() { n.intake.adopt(n, data) }) {
		netio.CloseFD(uintptr(n.fd), false)
	}
}

func (in *intake) adopt(n *loopConn, data []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed || in.front.isClosing() || in.loop.Watch(int(n.fd), n, true, false) != nil {
		netio.CloseFD(uintptr(n.fd), false)
		return
	}
	n.scanned, n.whole = 0, 0
	in.postpone(n, data)
}
