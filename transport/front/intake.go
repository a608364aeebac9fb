package front

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// maxBuffered bounds the bytes of incomplete heads on a loop, so that slow clients cannot fill the memory. Above it, the
// connections whose first bytes are the oldest are closed.
const maxBuffered = 16 << 20

// expireBatch is how many connections a turn of the loop closes, in some 2 ms.
const expireBatch = 256

// intake holds the connections of one loop that wait for a request, or for the rest of one. Its methods other than send
// and close are called on the loop.
type intake struct {
	answerer
	loop     transport.Loop
	arriving []netio.Socket // used by the goroutine that accepts

	// request and arrival are for the connection that is answered, leaving for a Deferred.
	request Request
	arrival Arrival
	leaving Request

	// mu is for close, which does the work itself if the loop has ended.
	mu       sync.Mutex
	waiting  queue // connections without a request so far, in the order of their arrival
	idle     queue // connections that may send another request, in the order of their last answers
	partial  queue // connections with a part of a request, in the order of its first bytes
	buffered int   // bytes in memory for the connections in partial
	closed   bool
}

// loopConn is a connection before its first request, or before its next one if the loop has answered all earlier ones.
type loopConn struct {
	intake     *intake
	fd         int32
	scanned    int32 // the first bytes, which do not contain the end of the head
	whole      int32 // the size of the request; 0: its head is not complete
	buffered   int32 // the part of intake.buffered for this connection; it is in intake.partial unless this is 0
	remote     netip.AddrPort
	queue      *queue    // waiting or idle; nil: neither
	due        time.Time // when it must leave the queue
	b          *netio.Buffer
	gone       bool
	lookPosted bool // a task will look at b; nothing is read until then
	last       *lastRequest
	tls        *handshake // nil: plaintext, or nothing was received yet
	// deferred must be answered before others are read; nil: there is none.
	deferred *Deferred
	at       [queueCount]neighbours
}

func newIntake(l *Listener, loop transport.Loop) *intake {
	return &intake{
		answerer: answerer{front: l}, loop: loop, waiting: queue{timeout: l.headTimeout}, idle: queue{timeout: l.idleTimeout}, partial: queue{which: 1},
	}
}

func (in *intake) send() {
	if len(in.arriving) == 0 {
		return
	}
	batch := slices.Clone(in.arriving)
	in.arriving = in.arriving[:0]
	if in.loop.Post(func() { in.admit(batch) }) {
		return
	}
	for _, s := range batch { // the loop is closed; transports refuse the connections
		in.front.passUnread(newIncoming(s, nil, false))
	}
}

func (in *intake) admit(batch []netio.Socket) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range batch {
		n := &loopConn{intake: in, fd: int32(s.FD), remote: s.Remote}
		if in.closed || in.loop.Watch(int(s.FD), n, true, false) != nil {
			netio.CloseFD(s.FD, false)
			continue
		}
		in.await(&in.waiting, n)
	}
}

func (in *intake) await(q *queue, n *loopConn) {
	n.gone, n.queue, n.due = false, q, time.Now().Add(q.timeout)
	q.add(n)
	in.arm(q)
}

// remove takes n off the queues. Its socket stays open, and watched.
func (in *intake) remove(n *loopConn) {
	in.leave(n)
	in.setBuffered(n, 0)
	n.gone = true
}

func (in *intake) leave(n *loopConn) {
	if n.queue != nil {
		n.queue.remove(n)
		n.queue = nil
	}
}

func (in *intake) setBuffered(n *loopConn, size int) {
	before := int(n.buffered)
	switch {
	case before == 0 && size > 0:
		in.partial.add(n)
	case before > 0 && size == 0:
		in.partial.remove(n)
	}
	n.buffered = int32(size)
	in.buffered += size - before
}

func (n *loopConn) size() (size int) {
	if n.b != nil {
		size = cap(n.b.B)
	}
	if t := n.layer(); t != nil {
		size += t.Buffered()
	}
	return size
}

func (in *intake) arm(q *queue) {
	if q.timer == nil && !q.expiring && q.oldest != nil && q.timeout > 0 {
		q.timer = in.loop.After(time.Until(q.oldest.due), func() { in.expire(q) })
	}
}

// expire closes connections that are due. After expireBatch of them it lets the loop do other work.
func (in *intake) expire(q *queue) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q.timer, q.expiring = nil, false
	now := time.Now()
	for n := 0; q.oldest != nil && !q.oldest.due.After(now); n++ {
		if n == expireBatch {
			q.expiring = in.loop.Post(func() { in.expire(q) }) // a loop that ends closes the rest
			return
		}
		in.timeOut(q.oldest)
	}
	in.arm(q)
}

// timeOut ends the wait for a request. If only the body is missing, net/http answers.
func (in *intake) timeOut(n *loopConn) {
	if n.whole == 0 {
		in.drop(n)
		return
	}
	in.remove(n)
	in.handOver(n, n.b.B, false)
	n.b.Free()
	n.b = nil
}

func (in *intake) drop(n *loopConn) {
	in.remove(n)
	if n.tls != nil {
		if !n.tls.done {
			in.abandon(n.tls)
			return
		}
		n.tls.out.Free()
	}
	in.loop.Forget(int(n.fd))
	netio.CloseFD(uintptr(n.fd), false)
	n.b.Free()
	n.b = nil
	if d := n.deferred; d != nil {
		n.deferred = nil
		d.end()
	}
}

// lose is drop without the lock.
func (in *intake) lose(n *loopConn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.drop(n)
}

// close closes all connections. Any goroutine may call it, once send is no longer called.
func (in *intake) close() {
	if in.loop.Post(in.end) {
		return
	}
	// The loop is closed, so its methods must not be called.
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	for _, q := range []*queue{&in.waiting, &in.idle} {
		for n := q.oldest; n != nil; n = q.after(n) {
			n.gone = true
			if n.tls != nil && !n.tls.done {
				n.tls.task.Resume(net.ErrClosed)
				continue
			}
			netio.CloseFD(uintptr(n.fd), false)
		}
		q.clear()
	}
	in.partial.clear()
}

func (in *intake) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	for _, q := range []*queue{&in.waiting, &in.idle} {
		for q.oldest != nil {
			in.drop(q.oldest)
		}
		if q.timer != nil {
			q.timer.Stop()
			q.timer = nil
		}
	}
}

func (n *loopConn) Ended() {
	n.intake.mu.Lock()
	defer n.intake.mu.Unlock()
	if !n.gone {
		n.intake.drop(n)
	}
}

func (n *loopConn) Ready(readable, _ bool) {
	in := n.intake
	if in.front.handshakes != nil && !in.secured(n) || !readable || n.lookPosted {
		return
	}
	if n.deferred != nil {
		in.listen(n)
		return
	}
	in.serve(n, in.read)
}

func (in *intake) serve(n *loopConn, look func(*loopConn) (data []byte, r *route, end int, m matchState)) {
	data, r, end, m := look(n)
	if m == partial {
		return
	}
	b := n.b // may hold data
	n.b = nil
	switch {
	case m == foreign:
		_, m := in.front.answers.match(data)
		in.handOver(n, data, m != foreign)
	case r.Take != nil:
		in.answer(n, r, data, end)
	default:
		in.try(n, r, data, end)
	}
	b.Free()
}

// handOver takes the connection off the loop, and passes it on with a copy of early.
func (in *intake) handOver(n *loopConn, early []byte, mayAnswer bool) {
	in.loop.Unwatch(int(n.fd))
	passed := newIncoming(netio.Socket{FD: uintptr(n.fd), Remote: n.remote}, bytes.Clone(early), mayAnswer)
	passed.tls = n.layer()
	in.front.pass(passed)
}

func (n *loopConn) layer() *netio.TLS {
	if n.tls == nil {
		return nil
	}
	return n.tls.tls
}

// read returns what was read of the request so far. If it is complete or foreign, read removes n from the queues.
func (in *intake) read(n *loopConn) (data []byte, r *route, end int, m matchState) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if n.gone {
		return nil, nil, 0, partial
	}
	buf := in.loop.Buffer()
	size, err := n.receive(buf)
	if data = buf[:size]; n.b != nil {
		n.append(data)
		data = n.b.B
	}
	switch {
	case err != nil && (len(data) == 0 || n.stuck() || n.last != nil && len(data) < minRequest):
		in.drop(n)
		return nil, nil, 0, partial
	case err != nil: // the answer is left to net/http
		in.remove(n)
		return data, nil, 0, foreign
	}
	if r, end, m = in.examine(n, data); m != partial {
		in.remove(n)
		return data, r, end, m
	}
	if n.b == nil && size > 0 {
		n.append(data)
	}
	in.limitBuffered(n)
	if n.buffered > 0 && n.queue == &in.idle {
		in.leave(n)
		in.await(&in.waiting, n)
	}
	return nil, nil, 0, partial
}

// limitBuffered counts the bytes of n, and keeps the sum below maxBuffered.
func (in *intake) limitBuffered(n *loopConn) {
	in.setBuffered(n, n.size())
	for in.buffered > maxBuffered {
		in.drop(in.partial.oldest)
	}
}

// examine looks for a request for a route, and parses it if it is complete.
func (in *intake) examine(n *loopConn, data []byte) (r *route, end int, m matchState) {
	if len(data) < int(n.whole) {
		return nil, 0, partial
	}
	q := in.requestOf(n)
	if k := n.last; k != nil && q.again(data) && q.length <= k.route.body {
		r, end, m = k.route, len(q.head), complete
	} else if r, end, m = in.front.onLoops.judge(data, int(n.scanned), in.front.maxHead); m == complete {
		if k != nil {
			k.route = r
		}
		if !q.parse(string(data[:end])) || !r.wants(q) {
			m = foreign
		}
	}
	switch {
	case m == partial:
		n.scanned = int32(len(data))
	case m == foreign:
	case n.whole == 0 && !r.admits(q):
		m = foreign
	case len(data) < q.end(end):
		n.whole = int32(q.end(end))
		in.request.reset()
		return nil, 0, partial
	}
	return r, end, m
}

func (n *loopConn) receive(buf []byte) (size int, err error) {
	t := n.layer()
	if t == nil {
		return netio.TryRead(uintptr(n.fd), buf)
	}
	if size, err = t.ReadAll(buf); err == nil && n.stuck() {
		err = errStuck
	}
	return size, err
}

// write is netio.TryWrite. Bytes that TLS could not send wait in tls.out.
func (n *loopConn) write(frames [][]byte) (int, error) {
	if t := n.layer(); t != nil {
		return t.TryWrite(frames)
	}
	return netio.TryWrite(uintptr(n.fd), frames)
}

// stuck reports whether the client does not even take the bytes that TLS itself sends.
func (n *loopConn) stuck() bool { return n.tls != nil && n.tls.out != nil }

var errStuck = errors.New("the client does not read")

func (n *loopConn) append(data []byte) {
	n.b = n.b.Grow(len(data))
	n.b.B = append(n.b.B, data...)
}
