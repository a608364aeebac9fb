package simulation

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

var (
	errReset   = errors.New("connection reset")
	errRefused = errors.New("connection refused")
)

// framer puts the length before each message.
type framer struct{ encoding protocol.Encoding }

var framers = [...]*framer{{protocol.JSON}, {protocol.Protobuf}}

func (f *framer) Encoding() protocol.Encoding { return f.encoding }
func (f *framer) Headroom() int               { return 4 }
func (f *framer) Costly() bool                { return false }
func (f *framer) Frame(buf []byte) []byte {
	binary.BigEndian.PutUint32(buf, uint32(len(buf)-4))
	return buf
}

// network connects clients and nodes.
type network struct {
	*scheduler
	log    *log
	seed   uint64
	count  map[string]int
	live   map[*conn]bool
	flaps  map[string]time.Duration // by client: when its next connection breaks
	moment func(name, client string)
	// lag and jitter of each message, and the room of a connection's buffer, which a slow reader fills.
	lag, jitter time.Duration
	window      int
	closed      map[string]uint32 // connection: the code with which its node has closed it
	fail        func(format string, args ...any)
	ends        func(conn, client string, code uint32) // a node closes a connection
}

// conn is a connection between a client and a node, with both of its ends. A direction that is cut loses all bytes
// without a word, as a half-open connection does.
type conn struct {
	net    *network
	name   string
	node   *machine
	client *endpoint
	ways   [2]*rand.Rand // the chance of the way down, and of the way up

	mu      sync.Mutex
	down    []byte // written by the node
	room    int    // for more
	blocked bool   // the node waits for room
	downEnd *protocol.Disconnect
	up      [][]byte // written by the client
	upEnd   bool
	paused  bool
	closed  bool // at the node

	// Only the scheduler uses these.
	peer              transport.Peer
	tail              []byte   // an incomplete frame on its way down
	waiting           [][]byte // arrived during a pause
	downCut, upCut    bool
	slow              bool
	stuck             [][]byte // slow: the client does not read
	owed              int      // bytes that arrived and were not read
	user              string
	downAt, upAt      time.Duration
	clientGone, ended bool
	held              []func() // happens when a partition ends
	over              bool     // the node knows that the connection has ended
	wire              *wire
}

// endpoint is the client's end of a connection.
type endpoint struct {
	c      *conn
	mu     sync.Mutex
	in     [][]byte
	err    error
	closed bool
	more   chan struct{}
	hear   func(message []byte, err error) // of a client without goroutines, in place of Read
}

// dial opens a connection from a client to a node. Clients call it.
func (n *network) dial(ctx context.Context, client string, to func() *machine, encoding protocol.Encoding) (*endpoint, error) {
	type result struct {
		e   *endpoint
		err error
	}
	answer := make(chan result, 1)
	n.tell("dial "+client, func() {
		n.open(client, to, encoding, func(e *endpoint, err error) { answer <- result{e, err} })
	})
	select {
	case r := <-answer:
		return r.e, r.err
	case <-ctx.Done():
		n.tell("dial "+client, func() {
			select {
			case r := <-answer:
				if r.e != nil {
					r.e.Cut()
				}
			default:
				go func() {
					if r := <-answer; r.e != nil {
						r.e.Cut()
					}
				}()
			}
		})
		return nil, ctx.Err()
	}
}

// open opens a connection and answers when it is open or refused. Only the scheduler calls it.
func (n *network) open(client string, to func() *machine, encoding protocol.Encoding, answer func(*endpoint, error)) {
	n.moment("client dials", client)
	n.count[client]++
	c := &conn{net: n, name: fmt.Sprintf("%s#%d", client, n.count[client]), user: client, room: n.window}
	c.ways = [2]*rand.Rand{stream(n.seed, "down "+c.name), stream(n.seed, "up "+c.name)}
	m := to()
	c.node = m
	n.after(c.pace(1), c.name, func() {
		if m == nil || m.down || m.cut {
			n.log.add(c.name, "refused")
			answer(nil, errRefused)
			return
		}
		c.client = &endpoint{c: c, more: make(chan struct{}, 1)}
		c.wire = newWire(n, c.name, encoding)
		peer, err := m.node.Accept(context.Background(), c, transport.Info{
			Name: "simulated", Framer: framers[encoding], RemoteAddr: c.name,
			DisconnectPush: hash(client)%4 == 0,
		})
		if err != nil {
			n.log.add(c.name, "refused by %s: %v", m.name, err)
			answer(nil, errRefused)
			return
		}
		c.peer = peer
		n.live[c] = true
		if d, flaps := n.flaps[client]; flaps {
			delete(n.flaps, client)
			n.after(d, c.name, c.reset)
		}
		n.log.add(c.name, "connected to %s", m.name)
		n.moment("client is accepted", client)
		answer(c.client, nil)
	})
}

func (c *conn) pace(way int) time.Duration {
	return c.net.lag + time.Duration(c.ways[way].Int64N(int64(c.net.jitter)+1))
}

// Write implements transport.Conn.
func (c *conn) Write(frames [][]byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errReset
	}
	first := len(c.down) == 0
	for _, f := range frames {
		take := min(len(f), c.room)
		c.down = append(c.down, f[:take]...)
		c.room -= take
		n += take
		if take < len(f) {
			c.blocked = true
			break
		}
	}
	if first && len(c.down) > 0 {
		c.net.tell(c.name+" down", c.pump)
	}
	return n, nil
}

// Close implements transport.Conn.
func (c *conn) Close(d protocol.Disconnect, frames [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, f := range frames {
		c.down = append(c.down, f...)
	}
	c.downEnd = &d
	c.net.tell(c.name+" down", c.pump)
}

// Pause implements transport.Conn.
func (c *conn) Pause(paused bool) {
	c.mu.Lock()
	c.paused = paused
	c.mu.Unlock()
	if !paused {
		c.net.tell(c.name+" up", c.receive)
	}
}

// pump sends what the node has written on its way.
func (c *conn) pump() {
	c.mu.Lock()
	data, end := c.down, c.downEnd
	c.down, c.downEnd = nil, nil
	c.mu.Unlock()
	if len(data) == 0 && end == nil {
		return
	}
	if end != nil {
		c.net.ends(c.name, c.user, end.Code)
	}
	at := max(c.net.now()+c.pace(0), c.downAt)
	c.downAt = at
	c.net.after(at-c.net.now(), c.name+" down", func() {
		c.arrive(data)
		if end != nil {
			c.finish(*end)
		}
	})
}

func (c *conn) arrive(data []byte) {
	if c.ended {
		return
	}
	if c.downCut {
		return
	}
	if c.node.cut {
		c.held = append(c.held, func() { c.arrive(data) })
		return
	}
	c.tail = append(c.tail, data...)
	seen := 0 // a node may write what it has at one moment as several messages: with a byte for each border
	for len(c.tail) >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(c.tail))
		if len(c.tail) < size {
			break
		}
		message := append([]byte(nil), c.tail[4:size]...)
		c.tail = c.tail[size:]
		seen += len(message) - bytes.Count(message, []byte("\n"))
		c.wire.came(message)
		if c.slow {
			c.stuck = append(c.stuck, message)
			continue
		}
		c.client.push(message, nil)
	}
	if seen > 0 {
		c.net.log.add(c.name, "<- %d bytes", seen)
	}
	if c.owed += len(data); !c.slow {
		c.free()
	}
}

// free lets the node write more: the client has read all that arrived.
func (c *conn) free() {
	c.mu.Lock()
	c.room += c.owed
	c.owed = 0
	blocked := c.blocked
	c.blocked = false
	c.mu.Unlock()
	if blocked && !c.ended {
		c.peer.Writable()
	}
}

// finish ends the connection as the node wants it.
func (c *conn) finish(d protocol.Disconnect) {
	if c.ended {
		return
	}
	if c.node.cut && !c.downCut {
		c.held = append(c.held, func() { c.finish(d) })
		c.left()
		return
	}
	c.net.log.add(c.name, "closed by %s: %d %s", c.node.name, d.Code, d.Reason)
	c.net.closed[c.name] = d.Code
	if !c.downCut {
		for _, m := range c.stuck {
			c.client.push(m, nil)
		}
		c.client.push(nil, &wsclient.CloseError{Code: d.Code, Reason: d.Reason})
	}
	c.end(nil)
}

// end ends the node's end.
func (c *conn) end(cause error) {
	if c.ended {
		return
	}
	c.ended = true
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	delete(c.net.live, c)
	if !c.over {
		c.over = true
		c.peer.Closed(cause)
	}
}

// reset breaks the connection for both ends.
func (c *conn) reset() {
	if c.ended {
		return
	}
	c.net.log.add(c.name, "reset")
	c.client.push(nil, errReset)
	c.end(errReset)
}

// stall lets the client read nothing, and closes its window.
func (c *conn) stall() {
	if c.ended {
		return
	}
	c.slow = true
	c.mu.Lock()
	c.owed, c.room = c.owed+c.room, 0
	c.mu.Unlock()
}

// read ends slowness.
func (c *conn) read() {
	if !c.slow {
		return
	}
	c.slow = false
	stuck := c.stuck
	c.stuck = nil
	if c.ended {
		return
	}
	for _, m := range stuck {
		c.client.push(m, nil)
	}
	c.free()
}

// send takes what the client has written.
func (c *conn) send() {
	c.mu.Lock()
	frames, end := c.up, c.upEnd
	c.up = nil
	c.mu.Unlock()
	at := max(c.net.now()+c.pace(1), c.upAt)
	c.upAt = at
	for _, f := range frames {
		c.wire.sent(f)
		c.net.after(at-c.net.now(), c.name+" up", func() {
			c.reach(func() { c.hand(f) })
		})
	}
	if end && !c.clientGone {
		c.clientGone = true
		c.net.after(at-c.net.now(), c.name+" up", func() {
			c.reach(func() {
				if !c.ended {
					c.net.log.add(c.name, "closed by the client")
				}
				c.end(errReset)
			})
		})
	}
}

// reach does something at the node that comes from the client: later if the node is partitioned, never if the
// connection is half-open.
func (c *conn) reach(do func()) {
	switch {
	case c.upCut:
	case c.node.cut:
		c.held = append(c.held, do)
	default:
		do()
	}
}

// hand hands a message to the node.
func (c *conn) hand(message []byte) {
	if c.ended {
		return
	}
	c.net.log.add(c.name, "-> %d bytes", len(message))
	c.waiting = append(c.waiting, message)
	c.receive()
}

// heal ends a partition for a connection: what was sent meanwhile is sent again and arrives.
func (c *conn) heal() {
	held := c.held
	c.held = nil
	for _, do := range held {
		do()
	}
}

// left tells the node that the connection has ended.
func (c *conn) left() {
	if !c.over {
		c.over = true
		c.peer.Closed(nil)
	}
}

// receive hands messages to the node.
func (c *conn) receive() {
	for len(c.waiting) > 0 && !c.ended {
		c.mu.Lock()
		paused := c.paused
		c.mu.Unlock()
		if paused {
			return
		}
		m := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.peer.Receive(m)
	}
}

func (e *endpoint) push(message []byte, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return
	}
	if e.hear != nil {
		e.err = err
		if !e.closed {
			e.c.net.tell(e.c.name+" heard", func() { e.hear(message, err) })
		}
		return
	}
	if e.err = err; err == nil {
		e.in = append(e.in, message)
	}
	e.signal()
}

func (e *endpoint) signal() {
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// Write implements client.Conn.
func (e *endpoint) Write(frame []byte) error {
	e.mu.Lock()
	closed := e.closed || e.err != nil
	e.mu.Unlock()
	if closed {
		return errReset
	}
	e.c.mu.Lock()
	e.c.up = append(e.c.up, append([]byte(nil), frame...))
	e.c.mu.Unlock()
	e.c.net.tell(e.c.name+" up", e.c.send)
	return nil
}

// Read implements client.Conn.
func (e *endpoint) Read(handle func(frame []byte) error) error {
	for range e.more {
		for {
			e.mu.Lock()
			in, err, closed := e.in, e.err, e.closed
			e.in = nil
			e.mu.Unlock()
			if closed {
				return errReset
			}
			for _, f := range in {
				if err := handle(f); err != nil {
					return err
				}
			}
			if len(in) > 0 {
				continue
			}
			if err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// Close implements client.Conn.
func (e *endpoint) Close(uint16, string) { e.Cut() }

// Cut implements client.Conn.
func (e *endpoint) Cut() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	e.signal()
	e.mu.Unlock()
	e.c.mu.Lock()
	e.c.upEnd = true
	e.c.mu.Unlock()
	e.c.net.tell(e.c.name+" up", e.c.send)
}

// widen ends the bounds of buffers.
func (n *network) widen() {
	n.window = max(n.window, 64<<10)
	for _, c := range n.of(nil) {
		c.owed += n.window
		c.free()
	}
}
