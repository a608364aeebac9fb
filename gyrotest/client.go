package gyrotest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// Options of a connection. nil means the defaults.
type Options struct {
	// Encoding; default: JSON.
	Encoding protocol.Encoding
	// Header of the request that opens the connection: cookies, an Origin.
	Header http.Header
	// Timeout of each method that waits; default: 10 s.
	Timeout time.Duration
	// Context of the request, for Open, with the values that HTTP middleware would put into it, for example credentials
	// from gyro.SetCredentials. Default: an empty one.
	Context context.Context
	// DialContext opens the network connection of Dial and Handshake, as in http.Transport. Default: TCP, for wss and
	// https with TLS that does not verify the certificate.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

const defaultTimeout = 10 * time.Second

type conn interface {
	send(msg []byte)
	drop()
}

// Client is one connection. It answers pings by itself. Any goroutine may call its methods, but those that may fail the
// test (all but Vanish, Mute, Stall and Pushes) only the goroutine of the test, like testing.T.FailNow.
type Client struct {
	tb      testing.TB
	codec   codec.ClientCodec
	timeout time.Duration
	conn    conn

	mu      sync.Mutex
	lastID  uint32
	replies map[uint32]*protocol.Reply // not awaited yet, by ID
	pushes  []*protocol.Push           // not returned yet
	mute    bool
	ended   bool
	end     protocol.Disconnect // constant once ended is true
	broken  error               // the server broke the protocol
	changed chan struct{}       // closed, and replaced, when one of these changes
}

func newClient(tb testing.TB, o Options, conn conn) *Client {
	c := &Client{
		tb: tb, codec: codec.ForClient(o.Encoding), timeout: cmp.Or(o.Timeout, defaultTimeout), conn: conn,
		replies: make(map[uint32]*protocol.Reply), changed: make(chan struct{}),
	}
	tb.Cleanup(func() {
		conn.drop()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.broken != nil {
			tb.Error(c.broken)
		}
	})
	return c
}

// Raw sends a message as it is, valid or not: one or more commands in the encoding of the connection.
func (c *Client) Raw(msg []byte) { c.conn.send(msg) }

// Start sends a command with an ID of its own, and returns the ID for Await.
func (c *Client) Start(cmd *protocol.Command) uint32 {
	c.tb.Helper()
	c.mu.Lock()
	c.lastID++
	numbered := *cmd
	numbered.ID = c.lastID
	c.mu.Unlock()
	c.sendCommand(&numbered)
	return numbered.ID
}

func (c *Client) sendCommand(cmd *protocol.Command) {
	c.tb.Helper()
	msg, err := c.codec.AppendCommand(nil, cmd)
	if err != nil {
		c.tb.Fatalf("gyrotest: %s: %v", text(cmd), err)
	}
	c.conn.send(msg)
}

// Await waits for the outcome of a command. The error is the *protocol.Error of the reply or, without a reply, the
// protocol.Disconnect that ended the connection.
func (c *Client) Await(id uint32) (r *protocol.Reply, err error) {
	c.tb.Helper()
	c.wait(fmt.Sprintf("the reply to command %d", id), func() bool {
		r = c.replies[id]
		delete(c.replies, id)
		return r != nil || c.ended
	})
	switch {
	case r == nil:
		return nil, c.end
	case r.Error != nil:
		return r, r.Error
	}
	return r, nil
}

// Try sends a command and returns its outcome like Await.
func (c *Client) Try(cmd *protocol.Command) (*protocol.Reply, error) {
	c.tb.Helper()
	return c.Await(c.Start(cmd))
}

// Push returns the next push.
func (c *Client) Push() *protocol.Push {
	c.tb.Helper()
	return c.push("a push", func(*protocol.Push) bool { return true })
}

func (c *Client) push(what string, wanted func(*protocol.Push) bool) (p *protocol.Push) {
	c.tb.Helper()
	c.wait(what, func() bool {
		i := slices.IndexFunc(c.pushes, wanted)
		if i < 0 {
			return false
		}
		p = c.pushes[i]
		c.pushes = slices.Delete(c.pushes, i, i+1)
		return true
	})
	return p
}

// Pushes returns, without waiting, the pushes that no method has returned.
func (c *Client) Pushes() []*protocol.Push {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pushes
	c.pushes = nil
	return p
}

// Disconnected waits for the end of the connection, and returns the server's code, 0 if there was none, and reason.
func (c *Client) Disconnected() protocol.Disconnect {
	c.tb.Helper()
	c.wait("the end of the connection", func() bool { return c.ended })
	return c.end
}

// Mute stops the answers to pings, so that the server ends the connection with 3012.
func (c *Client) Mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
}

// Vanish ends the connection without a word to the server, as a lost network does.
func (c *Client) Vanish() { c.conn.drop() }

// wait waits until found, called with the lock held, returns true. The test fails after the timeout or the connection's
// end.
func (c *Client) wait(what string, found func() bool) {
	c.tb.Helper()
	timeout := time.NewTimer(c.timeout)
	defer timeout.Stop()
	for late := false; ; {
		c.mu.Lock()
		ok, changed, failure := found(), c.changed, ""
		switch {
		case c.ended:
			failure = fmt.Sprintf("the connection has ended (%d %s) before %s came%s", c.end.Code, c.end.Reason, what, c.unread())
		case late:
			failure = fmt.Sprintf("%s did not come within %v%s", what, c.timeout, c.unread())
		}
		c.mu.Unlock()
		if ok {
			return
		}
		if failure != "" {
			c.tb.Fatalf("gyrotest: %s", failure)
		}
		select {
		case <-changed:
		case <-timeout.C:
			late = true
		}
	}
}

const maxUnread = 10

// unread describes the messages that the test did not fetch. The lock is held.
func (c *Client) unread() string {
	var lines []string
	for _, p := range c.pushes {
		lines = append(lines, text(&protocol.Reply{Push: p}))
	}
	for _, r := range c.replies {
		lines = append(lines, text(r))
	}
	switch n := len(lines); {
	case n == 0:
		return "; nothing else came"
	case n > maxUnread:
		lines = append(lines[:maxUnread], fmt.Sprintf("and %d more", n-maxUnread))
	}
	return "; these came:\n" + strings.Join(lines, "\n")
}

// text describes a command or a reply: in JSON or, if a payload is not JSON, by its Go fields.
func text(message any) string {
	var line []byte
	var err error
	switch m := message.(type) {
	case *protocol.Command:
		line, err = codec.ForClient(protocol.JSON).AppendCommand(nil, m)
	case *protocol.Reply:
		line, err = codec.For(protocol.JSON).AppendReply(nil, m)
	}
	if err != nil {
		return fields(reflect.ValueOf(message))
	}
	return string(line)
}

func fields(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Pointer:
		return fields(v.Elem())
	case v.Kind() != reflect.Struct:
		return fmt.Sprintf("%+q", v.Interface())
	}
	var parts []string
	for field, value := range v.Fields() {
		if !value.IsZero() {
			parts = append(parts, field.Name+":"+fields(value))
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func (c *Client) received(msg []byte) {
	for len(msg) > 0 {
		r := new(protocol.Reply)
		rest, err := c.codec.DecodeReply(msg, r)
		if err != nil {
			c.fail(fmt.Errorf("gyrotest: the server sent %q: %w", msg, err))
			return
		}
		msg = rest
		c.sort(r)
	}
}

func (c *Client) sort(r *protocol.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case r.ID != 0:
		c.replies[r.ID] = r
	case r.Push != nil:
		c.pushes = append(c.pushes, r.Push)
	case !c.mute:
		// This may be the goroutine of the node's loop, which must not wait for itself.
		go c.pong()
	}
	c.signal()
}

func (c *Client) pong() {
	if msg, err := c.codec.AppendCommand(nil, new(protocol.Command)); err == nil { // it has no payload that could be wrong
		c.conn.send(msg)
	}
}

func (c *Client) finish(d protocol.Disconnect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended, c.end = true, d
		c.signal()
	}
}

// fail notes that the server broke the protocol, which fails the test, and ends the connection.
func (c *Client) fail(err error) {
	c.mu.Lock()
	c.broken = cmp.Or(c.broken, err)
	c.mu.Unlock()
	go c.conn.drop()
}

// signal wakes up the goroutines that wait. The lock is held.
func (c *Client) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}
