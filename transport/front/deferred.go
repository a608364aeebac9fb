package front

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gyrohq/gyro/transport/front/internal/answer"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// statusGone is for the gate if a client goes before its answer. It is never sent.
const statusGone = 499

// Deferred is a request that is answered later, see Arrival.Defer. It is used on the loop.
type Deferred struct {
	conn   *loopConn
	route  *route
	client Waiting
	head   string // of the request
	addr   string // RemoteAddr of the request
	began  time.Time
}

// Waiting is the code that answers a Deferred.
type Waiting interface {
	// Gone tells that the client has gone before its answer. It is the last call, and must not use the Deferred.
	Gone()
}

// Defer keeps the connection for a later answer, if the request may pass the gate. Nil: the request was refused or the
// connection lost; nothing is left to do.
func (a *Arrival) Defer(w Waiting) *Deferred {
	n := a.conn
	in := n.intake
	if !in.front.beginServing() {
		a.state = lost
		return nil
	}
	if f := a.route.Gate.Enter(a.Request); f != nil {
		in.front.serving.Done()
		a.state = answered
		a.send(f.Status, f.answer())
		return nil
	}
	a.state = deferred
	n.deferred = &Deferred{conn: n, route: a.route, client: w, head: a.head, addr: a.RemoteAddr, began: a.Began}
	in.mu.Lock()
	defer in.mu.Unlock()
	n.gone = false
	if len(a.Early) > 0 {
		in.bufferNext(n, a.Early)
	}
	return n.deferred
}

// request returns the request, until the next call for a request of the loop.
func (d *Deferred) request() *Request {
	q := &d.conn.intake.leaving
	q.parse(d.head)
	q.RemoteAddr, q.Began = d.addr, d.began
	return q
}

// Answer sends an answer of the route's ContentType, with the route's Fields, and further fields, extra, each with its
// CR LF. Then the client may send its next request. A client that does not take the answer within this time loses the
// connection. Answer is called once, and does nothing once the client has gone.
func (d *Deferred) Answer(status int, extra string, body []byte, within time.Duration) {
	n, in := d.conn, d.conn.intake
	if n.deferred != d {
		return
	}
	n.deferred = nil
	q, closes := d.request(), in.front.isClosing()
	fields := netio.Get(len(extra) + 512)
	defer fields.Free()
	fields.B = d.route.advertise(q, fields.B)
	if d.route.Fields != nil {
		fields.B = d.route.Fields(q, fields.B)
	}
	fields.B = append(fields.B, extra...)
	text := netio.Get(answer.MaxHead + len(d.route.ContentType) + len(fields.B))
	defer text.Free()
	date := time.Now().UTC().AppendFormat(nil, http.TimeFormat)
	h := answer.Head{Status: status, ContentType: d.route.ContentType, Date: date, Fields: fields.B, Length: len(body), Close: closes}
	text.B = h.Append(text.B)
	sent, err := n.write([][]byte{text.B, body})
	q.Sent = len(body)
	d.route.Gate.Leave(q, status)
	q.reset()
	switch rest := len(text.B) + len(body) - sent; {
	case err == nil && (rest > 0 || n.stuck()):
		in.finish(n, bytes.Join([][]byte{text.B, body}, nil)[sent:], within)
		return
	case err != nil || closes:
		in.lose(n)
	default:
		in.awaitNext(n)
	}
	in.front.serving.Done()
}

func (d *Deferred) end() {
	q := d.request()
	d.route.Gate.Leave(q, statusGone)
	q.reset()
	d.conn.intake.front.serving.Done()
	d.client.Gone()
}

// listen reads while a client waits: it ends the connection, or begins its next request, whose rest stays in the socket.
func (in *intake) listen(n *loopConn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	buf := in.loop.Buffer()
	size, err := n.receive(buf)
	switch {
	case err != nil:
		in.drop(n)
	case size > 0:
		in.bufferNext(n, buf[:size])
	default:
		in.limitBuffered(n) // TLS may have a part of a record
	}
}

// bufferNext keeps the beginning of the next request, and stops reading.
func (in *intake) bufferNext(n *loopConn, data []byte) {
	n.append(data)
	if in.loop.Change(int(n.fd), false, false) != nil {
		in.drop(n)
		return
	}
	in.limitBuffered(n)
}

func (in *intake) awaitNext(n *loopConn) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n.scanned, n.whole = 0, 0
	if n.b == nil {
		in.await(&in.idle, n)
		return
	}
	in.await(&in.waiting, n)
	if in.loop.Change(int(n.fd), true, false) != nil {
		in.drop(n)
		return
	}
	in.loop.Post(func() { n.Ready(true, false) }) // there may be nothing more to read
}

func (in *intake) finish(n *loopConn, rest []byte, within time.Duration) {
	in.mu.Lock()
	in.remove(n)
	in.mu.Unlock()
	in.loop.Unwatch(int(n.fd))
	passed := newIncoming(netio.Socket{FD: uintptr(n.fd), Remote: n.remote}, nil, false)
	if n.b != nil {
		passed.early = bytes.Clone(n.b.B)
		n.b.Free()
	}
	var ciphertext []byte // what was not sent comes first
	if passed.tls = n.layer(); n.stuck() {
		ciphertext = bytes.Clone(n.tls.out.B)
		n.tls.out.Free()
	}
	go in.front.finish(passed, ciphertext, rest, within)
}

func (l *Listener) finish(in *incoming, ciphertext, rest []byte, within time.Duration) {
	defer l.serving.Done()
	err := in.convert(&l.spare)
	if err == nil {
		err = in.conn.SetWriteDeadline(time.Now().Add(within))
	}
	if err == nil && ciphertext != nil {
		_, err = in.conn.Write(ciphertext)
	}
	if err == nil {
		in.secure()
		_, err = in.conn.Write(rest)
	}
	if err == nil {
		err = in.conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		in.close()
		return
	}
	l.pass(in)
}
