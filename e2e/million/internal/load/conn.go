//go:build linux

package load

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/quiet"
)

type state uint8

const (
	closed  state = iota
	dialing       // the request of the handshake is not sent
	shaking       // no answer to the handshake
	joining       // connect and subscribe are sent
	live          // subscribed
)

// A client connects and subscribes in one message, as SDKs for browsers do.
const (
	connectID   = 1
	subscribeID = 2
)

// conn is a client, and the watcher of its socket.
type conn struct {
	loop      *loop
	fd        int32
	channel   plan.Channel
	node      uint16
	state     state
	encoding  uint8 // 0 is JSON, 1 Protobuf
	tries     uint8 // since it was subscribed
	returning bool  // it was subscribed before
	apart     bool  // its deliveries are recorded apart
	told      bool  // the server said that messages are missing, and no message has come since
	attempt   uint32
	next      uint64
	offset    uint64
	since     int64  // when the attempt began, or the connection was cut
	epoch     string // empty if there is no position
	rest      []byte // the beginning of an incomplete frame
	unsent    []byte
}

func (c *conn) index() int {
	// Connections lie in one array.
	return int((uintptr(unsafe.Pointer(c)) - uintptr(unsafe.Pointer(&c.loop.conns[0]))) / unsafe.Sizeof(*c))
}

func (c *conn) open() {
	l := c.loop
	now := time.Now()
	l.report.Opening++
	l.nodes[c.node].sent++
	l.attempts.push(c, now)
	if !c.returning {
		c.since = now.UnixNano()
	}
	var source *address
	if len(l.sources) > 0 {
		source = &l.sources[c.index()%len(l.sources)]
	}
	fd, during, errno := dial(source, &l.nodes[c.node].address)
	c.fd, c.state = int32(fd), dialing
	if errno != 0 {
		c.fail(during + ": " + errno.Error())
		return
	}
	request := l.nodes[c.node].requests[c.encoding]
	n, errno := quiet.Write(uintptr(fd), request)
	switch errno {
	case 0:
	case syscall.EAGAIN, syscall.EINTR:
		n = 0
	default:
		c.fail("connect: " + errno.Error())
		return
	}
	c.state = shaking
	if n < len(request) {
		c.state, c.unsent = dialing, request[n:]
	}
	if err := l.poller.Watch(fd, c, true, c.state == dialing); err != nil {
		c.fail("epoll: " + err.Error())
	}
}

// Ready implements transport.Watcher.
func (c *conn) Ready(readable, writable bool) {
	if c.fd < 0 {
		return
	}
	if writable && !c.flush() {
		return
	}
	if readable {
		c.read()
	}
}

// Ended implements transport.Watcher.
func (c *conn) Ended() { hangUp(c.fd) }

// flush tells whether the connection is still there.
func (c *conn) flush() bool {
	if len(c.unsent) == 0 {
		return true
	}
	n, errno := quiet.Write(uintptr(c.fd), c.unsent)
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return true
	case errno != 0:
		c.fail("write: " + errno.Error())
		return false
	}
	c.unsent = c.unsent[n:]
	if len(c.unsent) > 0 {
		return true
	}
	c.unsent = nil
	if c.state == dialing {
		c.state = shaking
	}
	if err := c.loop.poller.Change(int(c.fd), true, false); err != nil {
		c.fail("epoll: " + err.Error())
		return false
	}
	return true
}

// write keeps the bytes that the socket does not take now.
func (c *conn) write(frame []byte) {
	n := 0
	if len(c.unsent) == 0 {
		var errno syscall.Errno
		if n, errno = quiet.Write(uintptr(c.fd), frame); errno == syscall.EAGAIN || errno == syscall.EINTR {
			n = 0
		} else if errno != 0 {
			c.fail("write: " + errno.Error())
			return
		}
	}
	if n < len(frame) {
		c.unsent = append(c.unsent[:len(c.unsent):len(c.unsent)], frame[n:]...)
		if err := c.loop.poller.Change(int(c.fd), true, true); err != nil {
			c.fail("epoll: " + err.Error())
		}
	}
}

// read reads once: epoll tells if there is more.
func (c *conn) read() {
	l := c.loop
	n, errno := quiet.Read(uintptr(c.fd), l.in)
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return
	case errno != 0:
		c.fail("read: " + errno.Error())
		return
	case n == 0:
		c.fail("the server has cut the connection")
		return
	}
	l.report.Bytes += uint64(n)
	data := l.in[:n]
	if len(c.rest) > 0 {
		c.rest = append(c.rest, data...)
		data = c.rest
	}
	left, err := c.receive(data)
	switch {
	case c.fd < 0: // receive has ended it
	case err != nil:
		c.fail(err.Error())
	case len(left) == 0:
		c.rest = nil
	default:
		c.rest = append([]byte(nil), left...)
	}
}

// receive returns what follows the complete frames.
func (c *conn) receive(data []byte) (rest []byte, err error) {
	if c.state == shaking {
		size, err := shaken(data, c.encoding)
		if size == 0 || err != nil {
			return data, err
		}
		data = data[size:]
		c.state = joining
		c.join()
	}
	for len(data) > 0 && c.fd >= 0 {
		op, payload, size, err := frame(data)
		if size == 0 || err != nil {
			return data, err
		}
		data = data[size:]
		switch op {
		case wsclient.OpText, wsclient.OpBinary:
			if err := c.message(payload); err != nil {
				return nil, err
			}
		case wsclient.OpPing:
			c.write(appendFrame(nil, wsclient.OpPong, payload))
		case wsclient.OpClose:
			why := "close frame without code"
			if end := wsclient.ParseClose(payload); end.Code != wsclient.StatusNone {
				why = fmt.Sprintf("%d %s", end.Code, end.Reason)
			}
			c.fail(why)
		}
	}
	return data, nil
}

func (c *conn) join() {
	l := c.loop
	c.command(&protocol.Command{ID: connectID, Connect: &protocol.ConnectRequest{Token: l.tokens.of(l.first + c.index())}}, c.subscribing())
}

func (c *conn) subscribing() *protocol.Command {
	request := &protocol.SubscribeRequest{Channel: c.channel.String()}
	if c.epoch != "" {
		request.Recover, request.Offset, request.Epoch = true, c.offset, c.epoch
	}
	return &protocol.Command{ID: subscribeID, Subscribe: request}
}

func (c *conn) command(commands ...*protocol.Command) {
	l := c.loop
	l.text = l.text[:0]
	for i, cmd := range commands {
		if c.encoding == 0 && i > 0 {
			l.text = append(l.text, '\n')
		}
		text, err := l.codecs[c.encoding].AppendCommand(l.text, cmd)
		if err != nil {
			c.fail(err.Error())
			return
		}
		l.text = text
	}
	l.out = appendFrame(l.out[:0], wsclient.OpText+c.encoding, l.text)
	c.write(l.out)
}

func (c *conn) message(payload []byte) error {
	l := c.loop
	if len(payload) <= 2 && (string(payload) == "{}" || string(payload) == "\x00") {
		l.report.Pings++
		c.write(l.pongs[c.encoding])
		return nil
	}
	messages, err := l.decoder.decode(l.codecs[c.encoding], payload)
	if err != nil {
		return err
	}
	var now int64
	for i := range messages {
		if c.fd < 0 {
			return nil
		}
		if m := &messages[i]; m.reply != nil {
			c.reply(m.reply)
			continue
		}
		if now == 0 {
			now = time.Now().UnixNano()
		}
		c.publication(&messages[i].pub, now)
	}
	return nil
}

func (c *conn) publication(p *publication, now int64) {
	l := c.loop
	book := l.book(c)
	if !p.known || p.channel != c.channel {
		book.Foreign++
		return
	}
	c.offset = p.offset
	if c.told {
		c.told = false
		book.Tell(&c.next, p.stamp.Number)
	}
	book.Enter(l.gaps, c.index(), &c.next, p.stamp.Number)
	if c.apart {
		record(l.apart, now-p.stamp.Due)
		return
	}
	record(l.delivery, now-p.stamp.Due)
}

func (c *conn) reply(r *protocol.Reply) {
	switch {
	case r.Error != nil:
		c.fail(fmt.Sprintf("error %d: %s", r.Error.Code, r.Error.Message))
	case r.ID == subscribeID && r.Subscribe != nil:
		c.subscribed(r.Subscribe)
	case r.ID != 0:
	case r.Push == nil:
		c.loop.report.Pings++
		c.write(c.loop.pongs[c.encoding])
	case r.Push.Disconnect != nil:
		c.fail(fmt.Sprintf("%d %s", r.Push.Disconnect.Code, r.Push.Disconnect.Reason))
	case r.Push.Unsubscribe != nil:
		c.unsubscribed(r.Push.Unsubscribe)
	}
}

func (c *conn) subscribed(r *protocol.SubscribeResult) {
	l := c.loop
	now := time.Now().UnixNano()
	switch {
	case !r.WasRecovering:
	case r.Recovered:
		l.report.Recovered++
	default:
		l.report.Unrecovered++
		c.told = true
	}
	c.offset, c.epoch = r.Offset, ""
	if r.Recoverable {
		c.epoch = r.Epoch
	}
	for _, p := range r.Publications {
		pub := read(c.channel.String(), p)
		c.publication(&pub, now)
	}
	if len(r.Publications) > 0 {
		c.offset = max(c.offset, r.Offset)
	}
	if c.state != joining {
		return // it had kept its connection
	}
	if c.returning {
		l.report.Returned++
		record(l.back, now-c.since)
	} else {
		record(l.joining, now-c.since)
	}
	c.state, c.tries, c.returning = live, 0, true
	l.report.Opening--
	l.report.Live++
	l.nodes[c.node].live++
}

// resubscribe is the code of an unsubscribe push after which the client subscribes again.
const resubscribe = 2500

func (c *conn) unsubscribed(u *protocol.Unsubscribe) {
	c.loop.report.Cuts[fmt.Sprintf("%s %d %s", Unsubscribe, u.Code, u.Reason)]++
	if u.Code >= resubscribe {
		c.command(c.subscribing())
	}
}

func (c *conn) fail(why string) {
	l := c.loop
	if c.state == closed {
		return
	}
	if c.state == live {
		l.report.Live--
		l.nodes[c.node].live--
		l.report.Cuts[why]++
		c.since = time.Now().UnixNano()
	} else {
		l.report.Opening--
		l.report.Refusals[why]++
	}
	if c.fd >= 0 {
		l.poller.Forget(int(c.fd))
		hangUp(c.fd)
	}
	c.fd, c.state, c.rest, c.unsent = -1, closed, nil, nil
	l.later(c)
}
