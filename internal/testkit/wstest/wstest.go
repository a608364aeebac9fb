// Package wstest is gyrotest for this repository's own tests: its clients send the JSON text of commands, right or
// wrong.
package wstest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// Client is a gyrotest.Client with commands that are text. Methods that wait are for one goroutine at a time.
type Client struct {
	*gyrotest.Client
	tb       testing.TB
	encoding protocol.Encoding
	conn     net.Conn // of Dial and Handshake
	lastID   atomic.Uint32
}

// Pipe opens a connection in memory. It ends with the test.
func Pipe(tb testing.TB, a transport.Acceptor) *Client {
	tb.Helper()
	c, err := Open(context.Background(), tb, a, protocol.JSON)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Open is Pipe with the request's context and the encoding. The error is the acceptor's.
func Open(ctx context.Context, tb testing.TB, a transport.Acceptor, e protocol.Encoding) (*Client, error) {
	tb.Helper()
	w := &witness{Acceptor: a}
	c := gyrotest.Open(tb, w, &gyrotest.Options{Context: ctx, Encoding: e, Timeout: wait.Limit})
	return &Client{Client: c, tb: tb, encoding: e}, w.err
}

// witness keeps the error of an acceptor, and names the transport.
type witness struct {
	transport.Acceptor
	err error
}

func (w *witness) Accept(ctx context.Context, c transport.Conn, info transport.Info) (peer transport.Peer, err error) {
	info.Name = "pipe"
	peer, w.err = w.Acceptor.Accept(ctx, c, info)
	return peer, w.err
}

// Framer returns the framer of a Pipe's connections, which adds no envelope.
func Framer(e protocol.Encoding) transport.Framer { return gyrotest.Framer(e) }

// Dial opens a WebSocket connection to an http:// or https:// address, with header (or nil); the query
// cf_protocol=protobuf chooses the encoding. Certificates are not verified. The connection ends with the test.
func Dial(tb testing.TB, address string, header http.Header) *Client {
	tb.Helper()
	c, status := Handshake(tb, address, header)
	if c == nil {
		tb.Fatalf("handshake with %s: status %d", address, status)
	}
	return c
}

// Handshake is Dial for a server that may refuse. Then the client is nil, and the HTTP status tells why.
func Handshake(tb testing.TB, address string, header http.Header) (*Client, int) {
	tb.Helper()
	o := options(tb, address)
	w := &Client{tb: tb, encoding: o.Encoding}
	o.Header = header
	o.DialContext = func(ctx context.Context, network, host string) (conn net.Conn, err error) {
		if strings.HasPrefix(address, "https:") {
			conn, err = (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, network, host)
		} else {
			conn, err = new(net.Dialer).DialContext(ctx, network, host)
		}
		w.conn = conn
		return conn, err
	}
	var status int
	if w.Client, status, _ = gyrotest.Handshake(tb, address, o); w.Client == nil {
		return nil, status
	}
	return w, status
}

func options(tb testing.TB, address string) *gyrotest.Options {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	o := &gyrotest.Options{Timeout: wait.Limit}
	if u.Query().Get("cf_protocol") == "protobuf" {
		o.Encoding = protocol.Protobuf
	}
	return o
}

// Over returns a client of a WebSocket stream that is open already; address is as for Dial.
func Over(tb testing.TB, address string, conn io.ReadWriteCloser) *Client {
	tb.Helper()
	o := options(tb, address)
	return &Client{Client: gyrotest.Over(tb, conn, o), tb: tb, encoding: o.Encoding}
}

// Connect sends a connect command with these fields (`"token":"x"`, or nothing).
func (c *Client) Connect(fields string) *protocol.ConnectResult {
	c.tb.Helper()
	return c.Do(`"connect":{` + fields + `}`).Connect
}

// Subscribe sends a subscribe command with further fields (`"recover":true`, or nothing).
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

// Call sends a command, written without its ID and braces: `"rpc":{"method":"m"}`, and returns its reply.
func (c *Client) Call(command string) *protocol.Reply {
	c.tb.Helper()
	return c.Await(c.Start(command))
}

// Outcome is Call with its outcome: "ok", "error 103" or "disconnect 3501". The reply is nil after a disconnect.
func (c *Client) Outcome(command string) (string, *protocol.Reply) {
	c.tb.Helper()
	r, err := c.Client.Await(c.Start(command))
	switch {
	case r == nil:
		return fmt.Sprintf("disconnect %d", c.Disconnected().Code), nil
	case err != nil:
		return fmt.Sprintf("error %d", r.Error.Code), r
	}
	return "ok", r
}

// Await returns the reply to a command. A connection that ends before fails the test.
func (c *Client) Await(id uint32) *protocol.Reply {
	c.tb.Helper()
	r, err := c.Client.Await(id)
	if r == nil {
		c.tb.Fatalf("%v before the reply to command %d", err, id)
	}
	return r
}

// Start sends a command like Call, and returns its ID for Await.
func (c *Client) Start(command string) uint32 {
	c.tb.Helper()
	id := c.lastID.Add(1)
	c.Send(fmt.Sprintf(`{"id":%d,%s}`, id, command))
	return id
}

// Send sends one frame. The argument is JSON, for any encoding of the connection.
func (c *Client) Send(frame string) {
	c.tb.Helper()
	if c.encoding == protocol.JSON {
		c.Raw([]byte(frame))
		return
	}
	var msg []byte
	for rest := []byte(frame); len(rest) > 0; {
		var (
			cmd protocol.Command
			err error
		)
		if rest, err = codec.For(protocol.JSON).DecodeCommand(rest, &cmd); err == nil {
			msg, err = codec.ForClient(c.encoding).AppendCommand(msg, &cmd)
		}
		if err != nil {
			c.tb.Fatalf("%s: %v", frame, err)
		}
	}
	c.Raw(msg)
}

// Pub returns the publication of the next push, which must have one.
func (c *Client) Pub() *protocol.Publication {
	c.tb.Helper()
	p := c.Push()
	if p.Pub == nil {
		c.tb.Fatalf("got %+v, want a publication", p)
	}
	return p.Pub
}

// Bytes sends bytes, which need not be a frame, over the connection of Dial.
func (c *Client) Bytes(b []byte) { _, _ = c.conn.Write(b) } // reading fails, too, if this does

// Last sends a message and asks to close the connection of Dial, in one write.
func (c *Client) Last(msg string) {
	c.Bytes(frametest.Masked(frametest.Text(msg), frametest.Frame{Fin: true, Op: frametest.OpClose}))
}
