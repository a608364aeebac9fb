package servicebus

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/porttest"
)

// fake is a server of Service Bus: queues with locks and sessions, over AMQP.
type fake struct {
	net.Listener
	tb      testing.TB
	serving sync.WaitGroup

	mu       sync.Mutex
	conns    []*fakeConn
	queues   map[string]*fakeQueue
	tokens   []string      // put for queues
	lockTime time.Duration // of sessions
	renewals int           // of the locks of sessions
	peeked   []string      // queues
	refuse   map[string]bool
	accepts  int // requests for sessions that found none
	// abandoned counts messages that were given back.
	abandoned int
}

type fakeQueue struct {
	messages []*fakeMessage
	sequence int64
	sessions map[string]*fakeLink // that have a lock
}

type fakeMessage struct {
	sequence   int64
	session    string
	body       []byte
	properties dict
	deliveries uint32
	token      [16]byte  // of the lock
	lock       *fakeLink // that has the message
}

type fakeConn struct {
	*fake
	conn     net.Conn
	links    []*fakeLink
	delivery map[uint16]uint32 // next ID, by channel
	pending  map[[2]uint32]*fakeMessage
}

type fakeLink struct {
	*fakeConn
	channel        uint16
	handle         uint32
	toClient       bool
	address, reply string
	attach         frame
	attached       bool
	ended          bool // by the fake
	since          time.Time
	session        *string
	credit, count  uint32
}

const (
	sessionFilter = "com.microsoft:session-filter"
	filterCode    = 0x137000000C
	dotnetEpoch   = 621355968000000000
	// acceptTime is how long a request for a session waits for one.
	acceptTime = 100 * time.Millisecond
)

func newFake(tb testing.TB) *fake {
	f := &fake{tb: tb, queues: make(map[string]*fakeQueue), lockTime: time.Minute, refuse: make(map[string]bool)}
	f.listen(porttest.Address(tb))
	tb.Cleanup(f.stop)
	return f
}

func (f *fake) listen(address string) {
	var err error
	if f.Listener, err = net.Listen("tcp", address); err != nil {
		f.tb.Fatal(err)
	}
	f.serving.Go(func() {
		for {
			conn, err := f.Accept()
			if err != nil {
				return
			}
			c := &fakeConn{fake: f, conn: conn, delivery: make(map[uint16]uint32), pending: make(map[[2]uint32]*fakeMessage)}
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			f.serving.Go(c.serve)
		}
	})
}

// stop breaks all connections.
func (f *fake) stop() {
	_ = f.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		_ = c.conn.Close()
	}
	f.mu.Unlock()
	f.serving.Wait()
}

// restart accepts connections again after stop.
func (f *fake) restart() { f.listen(f.Addr().String()) }

// do runs something with the lock, then delivers what there is.
func (f *fake) do(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.deliver()
}

func (f *fake) queue(name string) *fakeQueue {
	q := f.queues[name]
	if q == nil {
		q = &fakeQueue{sessions: make(map[string]*fakeLink)}
		f.queues[name] = q
	}
	return q
}

// add puts a message into a queue.
func (f *fake) add(name, session, body string, properties dict) {
	f.do(func() { f.put(name, &fakeMessage{session: session, body: []byte(body), properties: properties}) })
}

func (f *fake) put(name string, m *fakeMessage) {
	q := f.queue(name)
	q.sequence++
	m.sequence = q.sequence
	q.messages = append(q.messages, m)
}

// publish adds a publication to the queue "events".
func (f *fake) publish(session, ch, data string) {
	f.add("events", session, fmt.Sprintf(`{"channel":%q,"data":%q}`, ch, data), dict{"centrifugo-method": "publish"})
}

// left returns the messages of a queue.
func (f *fake) left(name string) []fakeMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []fakeMessage
	for _, m := range f.queue(name).messages {
		list = append(list, *m)
	}
	return list
}

// look returns what get returns under the lock.
func look[T any](f *fake, get func() T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return get()
}

func (c *fakeConn) send(channel uint16, code uint64, payload []byte, fields ...any) {
	_ = writeFrame(c.conn, frame{channel: channel, code: code, fields: fields, payload: payload})
}

// serve answers a client until the connection ends.
func (c *fakeConn) serve() {
	defer func() { _ = c.conn.Close() }()
	defer c.do(func() { c.drop(func(*fakeLink) bool { return true }) })
	for _, sasl := range []bool{true, false} {
		var protocol [8]byte
		if _, err := io.ReadFull(c.conn, protocol[:]); err != nil {
			return
		}
		_, _ = c.conn.Write(protocol[:])
		if !sasl {
			break
		}
		_ = writeFrame(c.conn, frame{sasl: true, code: codeMechanisms, fields: []any{[]symbol{"ANONYMOUS"}}})
		if _, err := readFrame(c.conn); err != nil {
			return
		}
		_ = writeFrame(c.conn, frame{sasl: true, code: codeOutcome, fields: []any{uint8(0)}})
	}
	for {
		f, err := readFrame(c.conn)
		if err != nil || f.code == codeClose {
			return
		}
		c.do(func() { c.handle(&f) })
	}
}

func (c *fakeConn) handle(f *frame) {
	switch f.code {
	case codeOpen:
		c.send(0, codeOpen, nil, "fake", "", uint32(1<<20), uint16(1<<15))
	case codeBegin:
		c.send(f.channel, codeBegin, nil, f.channel, uint32(0), uint32(1<<30), uint32(1<<30), uint32(1<<30))
	case codeAttach:
		c.attach(f)
	case codeFlow:
		c.flow(f)
	case codeTransfer:
		c.transfer(f)
	case codeDisposition:
		c.disposition(f)
	case codeDetach:
		handle, ended := field[uint32](f, 0), false
		c.drop(func(l *fakeLink) bool {
			found := l.channel == f.channel && l.handle == handle
			ended = ended || found && l.ended
			return found
		})
		if !ended { // otherwise the client only confirms, and may already use the handle for another link
			c.send(f.channel, codeDetach, nil, handle, true)
		}
	case codeEnd:
		c.drop(func(l *fakeLink) bool { return l.channel == f.channel })
		c.send(f.channel, codeEnd, nil)
	}
}

// drop forgets links. Messages of a session are free again; others stay locked, as they do until their
// locks expire.
func (c *fakeConn) drop(which func(*fakeLink) bool) {
	c.links = slices.DeleteFunc(c.links, func(l *fakeLink) bool {
		if !which(l) {
			return false
		}
		if l.session != nil {
			q := c.queue(l.address)
			delete(q.sessions, *l.session)
			for _, m := range q.messages {
				if m.lock == l {
					m.lock = nil
				}
			}
		}
		return true
	})
}

func address(terminus any) string {
	if d, ok := terminus.(described); ok {
		if list := d.value.([]any); len(list) > 0 {
			s, _ := list[0].(string)
			return s
		}
	}
	return ""
}

func (c *fakeConn) attach(f *frame) {
	l := &fakeLink{fakeConn: c, channel: f.channel, handle: field[uint32](f, 1), toClient: field[bool](f, 2), attach: *f, since: time.Now()}
	source, target := field[any](f, 5), field[any](f, 6)
	if l.address, l.reply = address(source), address(target); !l.toClient {
		l.address, l.reply = l.reply, ""
	}
	c.links = append(c.links, l)
	if d, ok := source.(described); ok && l.toClient {
		if list := d.value.([]any); len(list) > 7 {
			if filters, ok := list[7].(dict); ok && filters[symbol(sessionFilter)] != nil {
				return // answered when there is a session
			}
		}
	}
	l.confirm(nil, nil)
}

// confirm answers an attach.
func (l *fakeLink) confirm(filter, properties any) {
	l.attached = true
	source, target := field[any](&l.attach, 5), field[any](&l.attach, 6)
	if filter != nil {
		list := append(slices.Clone(source.(described).value.([]any)), make([]any, 8)...)[:8]
		list[7] = filter
		source = described{codeSource, list}
	}
	l.send(l.channel, codeAttach, nil, field[string](&l.attach, 0), l.handle, !l.toClient, field[any](&l.attach, 3), field[any](&l.attach, 4),
		source, target, nil, nil, uint32(0), uint64(1<<20), nil, nil, properties)
	if !l.toClient {
		l.send(l.channel, codeFlow, nil, uint32(0), uint32(1<<30), uint32(0), uint32(1<<30), l.handle, uint32(0), uint32(1000))
	}
}

// expire ends a request for a session, of which there is none.
func (l *fakeLink) expire() {
	l.attached, l.ended = true, true
	l.accepts++
	l.send(l.channel, codeAttach, nil, field[string](&l.attach, 0), l.handle, false, field[any](&l.attach, 3), field[any](&l.attach, 4),
		nil, field[any](&l.attach, 6), nil, nil, uint32(0))
	l.send(l.channel, codeDetach, nil, l.handle, true, described{codeError, []any{symbol("com.microsoft:timeout"), "no session"}})
}

// find returns a link.
func (c *fakeConn) find(which func(*fakeLink) bool) *fakeLink {
	if i := slices.IndexFunc(c.links, which); i >= 0 {
		return c.links[i]
	}
	return nil
}

func (c *fakeConn) flow(f *frame) {
	if len(f.fields) < 5 || f.fields[4] == nil {
		return
	}
	handle := field[uint32](f, 4)
	l := c.find(func(l *fakeLink) bool { return l.channel == f.channel && l.handle == handle })
	if l == nil || !l.toClient {
		return
	}
	l.credit = field[uint32](f, 5) + field[uint32](f, 6) - l.count
	if field[bool](f, 8) { // drain
		c.deliver()
		l.count, l.credit = l.count+l.credit, 0
		c.send(l.channel, codeFlow, nil, uint32(0), uint32(1<<30), c.delivery[l.channel], uint32(1<<30), l.handle, l.count, uint32(0), uint32(0), true)
	}
}

// transfer takes a message from the client.
func (c *fakeConn) transfer(f *frame) {
	handle := field[uint32](f, 0)
	l := c.find(func(l *fakeLink) bool { return l.channel == f.channel && l.handle == handle && !l.toClient })
	if l == nil || field[bool](f, 5) {
		c.tb.Errorf("unexpected transfer %+v", f.fields)
		return
	}
	id := field[uint32](f, 1)
	c.send(f.channel, codeDisposition, nil, true, id, id, true, described{codeAccepted, []any{}})
	s := sections(f.payload)
	application, _ := s[codeApplication].(dict)
	if l.address == "$cbs" || strings.HasSuffix(l.address, "/$management") {
		properties := s[codeProperties].([]any)
		status, body := c.request(l.address, application, s[codeValue])
		back := c.find(func(l *fakeLink) bool { return l.toClient && l.reply == properties[4].(string) })
		answer := encode(nil, described{codeProperties, []any{nil, nil, nil, nil, nil, properties[0]}})
		answer = encode(answer, described{codeApplication, dict{"status-code": status, "statusCode": status, "statusDescription": "so"}})
		back.deliverOne(nil, encode(answer, described{codeValue, body}))
		return
	}
	m := &fakeMessage{properties: application}
	m.body, _ = s[codeData].([]byte)
	if properties, ok := s[codeProperties].([]any); ok && len(properties) > 10 {
		m.session, _ = properties[10].(string)
	}
	c.put(l.address, m)
}

// request answers one to $cbs or $management.
func (c *fakeConn) request(address string, application dict, body any) (status int32, answer any) {
	switch operation := application["operation"]; operation {
	case "put-token":
		c.tokens = append(c.tokens, fmt.Sprint(application["type"], " ", application["name"], " ", body))
		if c.refuse["token"] {
			return 401, nil
		}
		return 202, nil
	case "com.microsoft:peek-message":
		c.peeked = append(c.peeked, strings.TrimSuffix(address, "/$management"))
		if c.refuse["peek"] {
			return 404, nil
		}
		return 204, nil // there is none
	case "com.microsoft:renew-session-lock":
		c.renewals++
		if c.refuse["renew"] {
			return 410, nil
		}
		return 200, dict{"expiration": time.Now().Add(c.lockTime)}
	case "com.microsoft:update-disposition": // of messages whose link is gone
		request := body.(dict)
		for _, q := range c.queues {
			for _, m := range q.messages {
				if m.lock != nil && request["lock-tokens"].([]any)[0] == m.token && !c.refuse["settle"] {
					c.settle(m, request["disposition-status"] == "completed")
					return 200, nil
				}
			}
		}
		return 410, nil
	default:
		c.tb.Errorf("unexpected request to %s: %v", address, operation)
		return 501, nil
	}
}

// disposition settles messages.
func (c *fakeConn) disposition(f *frame) {
	first, last := field[uint32](f, 1), field[uint32](f, 1)
	if len(f.fields) > 2 && f.fields[2] != nil {
		last = field[uint32](f, 2)
	}
	state := field[described](f, 4)
	for id := first; id <= last; id++ {
		key := [2]uint32{uint32(f.channel), id}
		m := c.pending[key]
		if m == nil {
			continue
		}
		delete(c.pending, key)
		l := m.lock
		if c.refuse["settle"] || l == nil {
			c.send(f.channel, codeDisposition, nil, false, id, id, true, described{codeRejected,
				[]any{described{codeError, []any{symbol("com.microsoft:message-lock-lost"), "lost"}}}})
			continue
		}
		if state.code == codeModified { // what its client gets late, it releases
			c.abandoned++
		}
		c.settle(m, state.code == codeAccepted)
		c.send(f.channel, codeDisposition, nil, false, id, id, true, state)
	}
}

// settle removes a message from its queue, or its lock.
func (f *fake) settle(m *fakeMessage, completed bool) {
	q := f.queue(m.lock.address)
	m.lock = nil
	if completed {
		q.messages = slices.DeleteFunc(q.messages, func(other *fakeMessage) bool { return other == m })
	}
}

// unlock lets the locks of messages expire.
func (f *fake) unlock() {
	f.do(func() {
		for _, q := range f.queues {
			for _, m := range q.messages {
				m.lock = nil
			}
		}
	})
}

// deliver gives sessions and messages to links that wait for them.
func (f *fake) deliver() {
	for _, c := range f.conns {
		for _, l := range slices.Clone(c.links) {
			if !l.toClient || l.address == "$cbs" || strings.HasSuffix(l.address, "/$management") {
				continue
			}
			q := f.queue(l.address)
			if !l.attached {
				l.accept(q)
			}
			for _, m := range q.messages {
				if l.attached && l.credit > 0 && m.lock == nil && (l.session == nil || *l.session == m.session) {
					m.lock = l
					m.deliveries++
					l.deliverOne(m, m.encode())
				}
			}
		}
	}
}

// accept gives a session to a link, if there is one.
func (l *fakeLink) accept(q *fakeQueue) {
	for _, m := range q.messages {
		if q.sessions[m.session] != nil || m.session == "" {
			continue
		}
		q.sessions[m.session], l.session = l, &m.session
		until := time.Now().Add(l.lockTime)
		l.confirm(dict{symbol(sessionFilter): described{filterCode, m.session}},
			dict{symbol("com.microsoft:locked-until-utc"): until.UnixNano()/100 + dotnetEpoch})
		return
	}
	if rest := acceptTime - time.Since(l.since); rest > 0 {
		time.AfterFunc(rest, func() { l.do(func() {}) })
		return
	}
	l.expire()
}

// deliverOne sends a message; m is nil if it is settled already.
func (l *fakeLink) deliverOne(m *fakeMessage, payload []byte) {
	id := l.delivery[l.channel]
	l.delivery[l.channel]++
	l.count++
	l.credit--
	var tag [16]byte
	_, _ = rand.Read(tag[8:]) // clients reorder the other bytes
	if m != nil {
		m.token = tag
		l.pending[[2]uint32{uint32(l.channel), id}] = m
	}
	l.send(l.channel, codeTransfer, payload, l.handle, id, tag[:], uint32(0), m == nil, false)
}

func (m *fakeMessage) encode() []byte {
	b := encode(nil, described{codeHeader, []any{true, nil, nil, nil, m.deliveries - 1}})
	b = encode(b, described{codeAnnotations, dict{
		symbol("x-opt-sequence-number"): m.sequence, symbol("x-opt-locked-until"): time.Now().Add(time.Minute), symbol("x-opt-enqueued-time"): time.Now(),
	}})
	properties := make([]any, 11)
	properties[0] = fmt.Sprint("id-", m.sequence)
	if m.session != "" {
		properties[10] = m.session
	}
	b = encode(b, described{codeProperties, properties})
	if len(m.properties) > 0 {
		b = encode(b, described{codeApplication, m.properties})
	}
	return encode(b, described{codeData, m.body})
}
