package wstest

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
)

// Dial opens a WebSocket connection to an http:// or https:// address, with header
// (or nil) in the request; the query cf_protocol=protobuf chooses the encoding.
// Certificates are not verified. The connection ends with the test.
func Dial(tb testing.TB, address string, header http.Header) *Client {
	tb.Helper()
	c, status := Handshake(tb, address, header)
	if c == nil {
		tb.Fatalf("handshake with %s: status %d", address, status)
	}
	return c
}

// Handshake is Dial for a server that may refuse. If it refuses, the client is nil; the HTTP
// status tells why.
func Handshake(tb testing.TB, address string, header http.Header) (*Client, int) {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := dial(u)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header.Clone()}
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	if err := req.Write(conn); err != nil {
		tb.Fatal(err)
	}
	r := bufio.NewReader(conn)
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // if this fails, reading fails
	res, err := http.ReadResponse(r, req)
	if err != nil {
		tb.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body.Close()
		return nil, res.StatusCode
	}
	_ = conn.SetReadDeadline(time.Time{})
	return start(tb, u, conn, r), res.StatusCode
}

func dial(u *url.URL) (net.Conn, error) {
	if u.Scheme == "https" {
		return tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
	}
	return net.Dial("tcp", u.Host)
}

// Over returns a client of a WebSocket stream that is open already, for example over HTTP/2;
// address is as for Dial.
func Over(tb testing.TB, address string, conn io.ReadWriteCloser) *Client {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	return start(tb, u, conn, conn)
}

func start(tb testing.TB, u *url.URL, conn io.WriteCloser, r io.Reader) *Client {
	w := &socket{conn: conn, op: frametest.OpText}
	encoding := protocol.JSON
	if u.Query().Get("cf_protocol") == "protobuf" {
		encoding, w.op = protocol.Protobuf, frametest.OpBinary
	}
	c := newClient(tb, encoding)
	c.conn = w
	go w.read(r, c)
	return c
}

// Bytes sends bytes, which need not be a frame, over a client's WebSocket.
func (c *Client) Bytes(b []byte) { c.conn.(*socket).bytes(b) }

// socket is a WebSocket connection that sends unfragmented messages.
type socket struct {
	conn io.WriteCloser
	op   byte // of messages
	mu   sync.Mutex
}

func (w *socket) send(msg []byte) { w.write(w.op, string(msg)) }
func (w *socket) drop()           { w.conn.Close() }

// bytes ignores failures: reading fails, too, then.
func (w *socket) bytes(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.conn.Write(b)
}

// Last sends one message and asks to close the connection, in one write.
func (c *Client) Last(msg string) {
	w := c.conn.(*socket)
	w.bytes(frametest.Masked(frametest.Frame{Fin: true, Op: w.op, Payload: msg}, frametest.Frame{Fin: true, Op: frametest.OpClose}))
}

func (w *socket) write(op byte, payload string) {
	w.bytes(frametest.Masked(frametest.Frame{Fin: true, Op: op, Payload: payload}))
}

// read takes frames, which servers send unfragmented, until the end.
func (w *socket) read(r io.Reader, c *Client) {
	defer w.drop()
	for {
		f, err := frametest.Read(r)
		if err != nil {
			c.finish(protocol.Disconnect{})
			return
		}
		switch f.Op {
		case frametest.OpText, frametest.OpBinary:
			c.received([]byte(f.Payload))
		case frametest.OpPing:
			w.write(frametest.OpPong, f.Payload)
		case frametest.OpClose:
			var d protocol.Disconnect
			if p := f.Payload; len(p) >= 2 {
				d.Code, d.Reason = uint32(binary.BigEndian.Uint16([]byte(p))), p[2:]
			}
			w.write(frametest.OpClose, f.Payload)
			c.finish(d)
			return
		}
	}
}
