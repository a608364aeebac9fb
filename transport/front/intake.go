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

// maxHeld bounds the bytes of incomplete heads that a loop holds, so that clients that send
// their requests slowly cannot fill the memory. Above it, the connections whose first bytes are
// the oldest are closed. Heads that arrive in one piece are not held.
const maxHeld = 16 << 20

// expireBatch is how many late connections a turn of the loop closes, in some 2 ms.
const expireBatch = 256

// intake holds the connections of one loop that wait for a request, or for the rest of one.
// Its methods other than send and close are called on the loop.
type intake struct {
	answerer
	loop     transport.Loop
	arriving []netio.Socket // used by the goroutine that accepts

	// request and arrival belong to the connection that is being answered, leaving to a Deferred.
	request Request
	arrival Arrival
	leaving Request

	// mu is for close, which does the work itself if the loop has ended.
	mu      sync.Mutex
	waiting queue // connections without a request so far, in the order of their arrival
	kept    queue // connections that may send another request, in the order of their last answers
	partial queue // connections with a part of a request, in the order of its first bytes
	held    int   // bytes in memory for the connections in partial
	closed  bool
}

// newcomer is a connection before its first request, or before its next one if the loop has answered all earlier ones.
// It implements transport.Watcher.
type newcomer struct {
	intake  *intake
	fd      int32
	scanned int32 // the first bytes, which do not contain the end of the head
	whole   int32 // the size of the request; 0: its head is not complete
	held    int32 // the part of intake.held for this connection; it is in intake.partial unless held is 0
	remote  netip.AddrPort
	queue   *queue        // waiting or kept; nil: neither
	due     time.Time     // when it must leave the queue
	b       *netio.Buffer // bytes that were read; nil: none
	gone    bool
	more    bool       // a task will look at b; nothing is read until then
	last    *last      // nil: Try has answered nothing yet
	tls     *handshake // nil: plaintext, or nothing was received yet
	// deferred is the request that must be answered before others are read; nil: there is none.
	deferred *Deferred
	at       [queueCount]neighbours
}

func newIntake(l *Listener, loop transport.Loop) *intake {
	return &intake{
		answerer: answerer{front: l}, loop: loop, waiting: queue{timeout: l.headTimeout}, kept: queue{timeout: l.idleTimeout}, partial: queue{which: 1},
	}
}

// send brings the connections that arrive to the loop.
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

// admit begins to wait for the requests of new connections.
func (in *intake) admit(batch []netio.Socket) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, s := range batch {
		n := &newcomer{intake: in, fd: int32(s.FD), remote: s.Remote}
		if in.closed || in.loop.Watch(int(s.FD), n, true, false) != nil {
			netio.CloseFD(s.FD, false)
			continue
		}
		in.await(&in.waiting, n)
	}
}

// await puts n, which is in neither, into waiting or kept.
func (in *intake) await(q *queue, n *newcomer) {
	n.gone, n.queue, n.due = false, q, time.Now().Add(q.timeout)
	q.add(n)
	in.arm(q)
}

// remove takes n off the queues. Its socket stays open, and watched.
func (in *intake) remove(n *newcomer) {
	in.leave(n)
	in.count(n, 0)
	n.gone = true
}

// leave takes n off waiting or kept.
func (in *intake) leave(n *newcomer) {
	if n.queue != nil {
		n.queue.remove(n)
		n.queue = nil
	}
}

// count notes how many bytes n holds now.
func (in *intake) count(n *newcomer, held int) {
	before := int(n.held)
	switch {
	case before == 0 && held > 0:
		in.partial.add(n)
	case before > 0 && held == 0:
		in.partial.remove(n)
	}
	n.held = int32(held)
	in.held += held - before
}

// size returns how many bytes n holds: bytes that were read, and bytes of an incomplete record in TLS.
func (n *newcomer) size() (size int) {
	if n.b != nil {
		size = cap(n.b.B)
	}
	if t := n.layer(); t != nil {
		size += t.Held()
	}
	return size
}

// arm sets the timer for the oldest connection.
func (in *intake) arm(q *queue) {
	if q.timer == nil && !q.expiring && q.oldest != nil && q.timeout > 0 {
		q.timer = in.loop.After(time.Until(q.oldest.due), func() { in.expire(q) })
	}
}

// expire closes late connections. After each expireBatch of them it lets the loop do other
// work; there is no timer meanwhile.
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
		in.late(q.oldest)
	}
	in.arm(q)
}

// late ends the wait for a request. If its body alone is late, net/http gets it, which has a
// timeout and an answer for that.
func (in *intake) late(n *newcomer) {
	if n.whole == 0 {
		in.drop(n)
		return
	}
	in.remove(n)
	in.handOver(n, n.b.B, false)
	n.b.Free()
	n.b = nil
}

// drop closes a connection.
func (in *intake) drop(n *newcomer) {
	in.remove(n)
	if n.tls != nil {
		if !n.tls.over {
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

// lose is drop for callers that do not hold the lock.
func (in *intake) lose(n *newcomer) {
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
	for _, q := range []*queue{&in.waiting, &in.kept} {
		for n := q.oldest; n != nil; n = q.after(n) {
			n.gone = true
			if n.tls != nil && !n.tls.over {
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
	for _, q := range []*queue{&in.waiting, &in.kept} {
		for q.oldest != nil {
			in.drop(q.oldest)
		}
		if q.timer != nil {
			q.timer.Stop()
			q.timer = nil
		}
	}
}

func (n *newcomer) Ended() {
	n.intake.mu.Lock()
	defer n.intake.mu.Unlock()
	if !n.gone {
		n.intake.drop(n)
	}
}

func (n *newcomer) Ready(readable, _ bool) {
	in := n.intake
	if in.front.handshakes != nil && !in.secured(n) || !readable || n.more {
		return
	}
	if n.deferred != nil {
		in.listen(n)
		return
	}
	in.serve(n, in.read)
}

// serve looks for a request, and serves it if it is complete.
func (in *intake) serve(n *newcomer, look func(*newcomer) (data []byte, r *route, end int, o outcome)) {
	data, r, end, o := look(n)
	if o == partial {
		return
	}
	b := n.b // may hold data
	n.b = nil
	switch {
	case o == foreign:
		_, o := in.front.answers.match(data)
		in.handOver(n, data, o != foreign)
	case r.Take != nil:
		in.answer(n, r, data, end)
	default:
		in.try(n, r, data, end)
	}
	b.Free()
}

// handOver takes the connection off the loop and passes it on. It copies early, the bytes that
// were read.
func (in *intake) handOver(n *newcomer, early []byte, mayAnswer bool) {
	in.loop.Unwatch(int(n.fd))
	passed := newIncoming(netio.Socket{FD: uintptr(n.fd), Remote: n.remote}, bytes.Clone(early), mayAnswer)
	passed.tls = n.layer()
	in.front.pass(passed)
}

// layer returns the TLS of a connection; nil: plaintext.
func (n *newcomer) layer() *netio.TLS {
	if n.tls == nil {
		return nil
	}
	return n.tls.tls
}

// read reads from the client, and returns the new bytes after the bytes of earlier reads. If the first request is now
// complete or foreign, read removes n from the queues.
func (in *intake) read(n *newcomer) (data []byte, r *route, end int, o outcome) {
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
	if r, end, o = in.examine(n, data); o != partial {
		in.remove(n)
		return data, r, end, o
	}
	if n.b == nil && size > 0 {
		n.append(data)
	}
	in.hold(n)
	if n.held > 0 && n.queue == &in.kept {
		in.leave(n)
		in.await(&in.waiting, n)
	}
	return nil, nil, 0, partial
}

// hold counts the bytes that n holds, and keeps the sum over all newcomers below maxHeld.
func (in *intake) hold(n *newcomer) {
	in.count(n, n.size())
	for in.held > maxHeld {
		in.drop(in.partial.oldest)
	}
}

// examine finds out whether data is a request for a route, and parses it if it is complete.
func (in *intake) examine(n *newcomer, data []byte) (r *route, end int, o outcome) {
	if len(data) < int(n.whole) {
		return nil, 0, partial
	}
	q := in.requestOf(n)
	if k := n.last; k != nil && q.again(data) && q.length <= k.route.body {
		r, end, o = k.route, len(q.head), complete
	} else if r, end, o = in.front.onLoops.judge(data, int(n.scanned), in.front.maxHead); o == complete {
		if k != nil {
			k.route = r
		}
		if !q.parse(string(data[:end])) || !r.wants(q) {
			o = foreign
		}
	}
	switch {
	case o == partial:
		n.scanned = int32(len(data))
	case o == foreign:
	case n.whole == 0 && !r.admits(q):
		o = foreign
	case len(data) < q.end(end):
		n.whole = int32(q.end(end))
		in.request.reset()
		return nil, 0, partial
	}
	return r, end, o
}

// receive reads once. Bytes may come along with an error.
func (n *newcomer) receive(buf []byte) (size int, err error) {
	t := n.layer()
	if t == nil {
		return netio.TryRead(uintptr(n.fd), buf)
	}
	if size, err = t.ReadAll(buf); err == nil && n.stuck() {
		err = errStuck
	}
	return size, err
}

// write writes as netio.TryWrite does. Bytes that TLS could not send wait in tls.out.
func (n *newcomer) write(frames [][]byte) (int, error) {
	if t := n.layer(); t != nil {
		return t.TryWrite(frames)
	}
	return netio.TryWrite(uintptr(n.fd), frames)
}

// stuck reports whether the client does not even take the bytes that TLS itself sends.
func (n *newcomer) stuck() bool { return n.tls != nil && n.tls.out != nil }

var errStuck = errors.New("the client does not read")

// append adds data to the bytes that were read of n.
func (n *newcomer) append(data []byte) {
	n.b = n.b.Grow(len(data))
	n.b.B = append(n.b.B, data...)
}
