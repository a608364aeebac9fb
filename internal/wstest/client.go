// Package wstest has a client of the protocol for the tests of the library and of the
// server. It is connected by a real WebSocket (Dial) or directly to a node, without a socket
// (Pipe). Tests write commands as the JSON that goes over the wire; the client decodes
// replies and pushes.
package wstest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// patience is how long a client waits before the test fails. In a synctest
// bubble that time passes at once if nothing can happen any more.
const patience = 20 * time.Second

// conn carries the client's messages.
type conn interface {
	send(msg []byte)
	// drop ends the connection without a Close frame.
	drop()
}

// Client is one connection. It answers pings by itself. Methods that wait fail the test if
// nothing comes. Any goroutine may call them, one at a time.
type Client struct {
	tb    testing.TB
	conn  conn
	codec codec.ClientCodec
	more  chan struct{} // something below has changed

	mu      sync.Mutex
	lastID  uint32
	replies map[uint32]*protocol.Reply // not awaited yet, by ID
	pushes  []*protocol.Push           // not returned yet
	mute    bool
	ended   bool
	end     protocol.Disconnect // does not change once ended is true
}

func newClient(tb testing.TB, e protocol.Encoding) *Client {
	return &Client{
		tb: tb, codec: codec.ForClient(e), more: make(chan struct{}, 1),
		replies: make(map[uint32]*protocol.Reply),
	}
}

// Connect sends a connect command with these fields (`"token":"x"`, or nothing)
// and returns the result.
func (c *Client) Connect(fields string) *protocol.ConnectResult {
	c.tb.Helper()
	return c.Do(`"connect":{` + fields + `}`).Connect
}

// Subscribe sends a subscribe command for a channel, with further fields
// (`"recover":true`, or nothing), and returns the result.
func (c *Client) Subscribe(ch, fields string) *protocol.SubscribeResult {
	c.tb.Helper()
	if fields != "" {
		fields = "," + fields
	}
	return c.Do(fmt.Sprintf(`"subscribe":{"channel":%q%s}`, ch, fields)).Subscribe
}

// Do is Call for a command that has to succeed: an error fails the test.
func (c *Client) Do(command string) *protocol.Reply {
	c.tb.Helper()
	r := c.Call(command)
	if r.Error != nil {
		c.tb.Fatalf("%s: %v", command, r.Error)
	}
	return r
}

// Call sends a command, which is written without its ID and braces:
// `"rpc":{"method":"m"}`, and returns its reply.
func (c *Client) Call(command string) *protocol.Reply {
	c.tb.Helper()
	return c.Await(c.Start(command))
}

// Outcome sends a command like Call, and describes its outcome: "ok", "error 103" or
// "disconnect 3501". The reply is nil after a disconnect.
func (c *Client) Outcome(command string) (string, *protocol.Reply) {
	c.tb.Helper()
	id := c.Start(command)
	var r *protocol.Reply
	c.until("the outcome of "+command, func() bool {
		r = c.take(id)
		return r != nil || c.ended
	})
	switch {
	case r == nil:
		return fmt.Sprintf("disconnect %d", c.end.Code), nil
	case r.Error != nil:
		return fmt.Sprintf("error %d", r.Error.Code), r
	}
	return "ok", r
}

// Start sends a command like Call, and returns its ID for Await.
func (c *Client) Start(command string) uint32 {
	c.tb.Helper()
	c.mu.Lock()
	c.lastID++
	id := c.lastID
	c.mu.Unlock()
	c.Send(fmt.Sprintf(`{"id":%d,%s}`, id, command))
	return id
}

// Send sends one frame. It is written as JSON, whatever the encoding of the connection.
func (c *Client) Send(frame string) {
	c.tb.Helper()
	if c.codec.Encoding() == protocol.JSON {
		c.conn.send([]byte(frame))
		return
	}
	var msg []byte
	for rest := []byte(frame); len(rest) > 0; {
		var (
			cmd protocol.Command
			err error
		)
		if rest, err = codec.For(protocol.JSON).DecodeCommand(rest, &cmd); err == nil {
			msg, err = c.codec.AppendCommand(msg, &cmd)
		}
		if err != nil {
			c.tb.Fatalf("%s: %v", frame, err)
		}
	}
	c.conn.send(msg)
}

// Raw sends one message with this payload, valid or not.
func (c *Client) Raw(payload []byte) { c.conn.send(payload) }

// Await returns the reply to a command.
func (c *Client) Await(id uint32) *protocol.Reply {
	c.tb.Helper()
	var r *protocol.Reply
	c.wait(fmt.Sprintf("the reply to command %d", id), func() bool {
		r = c.take(id)
		return r != nil
	})
	return r
}

// take returns the reply to a command, nil if it has not come. The lock is held.
func (c *Client) take(id uint32) *protocol.Reply {
	r := c.replies[id]
	delete(c.replies, id)
	return r
}

// Push returns the next push.
func (c *Client) Push() *protocol.Push {
	c.tb.Helper()
	var p *protocol.Push
	c.wait("a push", func() bool {
		if len(c.pushes) == 0 {
			return false
		}
		p, c.pushes = c.pushes[0], c.pushes[1:]
		return true
	})
	return p
}

// Pub returns the publication of the next push; a push of another kind fails the test.
func (c *Client) Pub() *protocol.Publication {
	c.tb.Helper()
	p := c.Push()
	if p.Pub == nil {
		c.tb.Fatalf("got %+v, want a publication", p)
	}
	return p.Pub
}

// Pushes returns the pushes that have come and were not returned yet. It does not wait.
func (c *Client) Pushes() []*protocol.Push {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pushes
	c.pushes = nil
	return p
}

// Disconnected waits for the end of the connection. It returns the server's code and reason;
// the code is 0 if the server gave none.
func (c *Client) Disconnected() protocol.Disconnect {
	c.tb.Helper()
	c.until("the end of the connection", func() bool { return c.ended })
	return c.end
}

// Mute stops the answers to pings.
func (c *Client) Mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
}

// Vanish ends the connection without a Close frame.
func (c *Client) Vanish() { c.conn.drop() }

// wait waits until found, which is called with the lock held, returns true. The test fails if
// the connection ends before.
func (c *Client) wait(what string, found func() bool) {
	c.tb.Helper()
	ok := false
	c.until(what, func() bool {
		ok = found()
		return ok || c.ended
	})
	if !ok {
		c.tb.Fatalf("connection ended (%v) before %s came", c.end, what)
	}
}

// until waits until done, which is called with the lock held, returns true.
func (c *Client) until(what string, done func() bool) {
	c.tb.Helper()
	for {
		c.mu.Lock()
		ok := done()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.more:
		case <-time.After(patience):
			c.tb.Fatalf("%s did not come", what)
		}
	}
}

// received takes a message of the server.
func (c *Client) received(msg []byte) {
	for len(msg) > 0 {
		r := new(protocol.Reply)
		rest, err := c.codec.DecodeReply(msg, r)
		if err != nil {
			c.tb.Errorf("server sent %q: %v", msg, err)
			return
		}
		msg = rest
		c.sort(r)
	}
	c.signal()
}

func (c *Client) sort(r *protocol.Reply) {
	c.mu.Lock()
	ping := r.ID == 0 && r.Push == nil && !c.mute
	switch {
	case r.ID != 0:
		c.replies[r.ID] = r
	case r.Push != nil:
		c.pushes = append(c.pushes, r.Push)
	}
	c.mu.Unlock()
	if ping {
		// The caller may be the server's loop, which must not wait for itself.
		go c.Send("{}")
	}
}

func (c *Client) finish(d protocol.Disconnect) {
	c.mu.Lock()
	if !c.ended {
		c.ended, c.end = true, d
	}
	c.mu.Unlock()
	c.signal()
}

func (c *Client) signal() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}
