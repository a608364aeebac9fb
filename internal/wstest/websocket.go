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

	"github.com/gyrohq/gyro/protocol"
)

// Opcodes of RFC 6455.
const (
	opText   = 1
	opBinary = 2
	opClose  = 8
	opPing   = 9
	opPong   = 10
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

// Handshake is Dial for a server that may refuse: without a client, the HTTP
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
	_ = conn.SetReadDeadline(time.Now().Add(patience)) // a failure shows when reading
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

// Over makes a client of a WebSocket stream that was opened in another way, such
// as over HTTP/2; address is as for Dial.
func Over(tb testing.TB, address string, conn io.ReadWriteCloser) *Client {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	return start(tb, u, conn, conn)
}

func start(tb testing.TB, u *url.URL, conn io.WriteCloser, r io.Reader) *Client {
	w := &socket{conn: conn, op: opText}
	encoding := protocol.JSON
	if u.Query().Get("cf_protocol") == "protobuf" {
		encoding, w.op = protocol.Protobuf, opBinary
	}
	c := newClient(tb, encoding)
	c.link = w
	go w.read(r, c)
	return c
}

// Bytes sends bytes, which need not be a frame, over a client's WebSocket.
func (c *Client) Bytes(b []byte) { c.link.(*socket).bytes(b) }

// socket is a WebSocket connection that sends unfragmented messages.
type socket struct {
	conn io.WriteCloser
	op   byte
	mu   sync.Mutex
}

func (w *socket) send(msg []byte) { w.write(w.op, msg) }
func (w *socket) drop()           { w.conn.Close() }

func (w *socket) bytes(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.conn.Write(b)
}

// Last sends one message and asks to close the connection, in one go.
func (c *Client) Last(msg string) {
	w := c.link.(*socket)
	w.bytes(append(encode(w.op, []byte(msg)), encode(opClose, nil)...))
}

// write sends a frame. A failure shows when reading.
func (w *socket) write(op byte, payload []byte) { w.bytes(encode(op, payload)) }

func encode(op byte, payload []byte) []byte {
	frame := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	frame = append(frame, 0, 0, 0, 0) // a mask that changes nothing
	return append(frame, payload...)
}

// read takes frames until the end.
func (w *socket) read(r io.Reader, c *Client) {
	defer w.drop()
	for {
		op, payload, err := readFrame(r)
		if err != nil {
			c.finish(protocol.Disconnect{})
			return
		}
		switch op {
		case opText, opBinary:
			c.received(payload)
		case opPing:
			w.write(opPong, payload)
		case opClose:
			var d protocol.Disconnect
			if len(payload) >= 2 {
				d.Code, d.Reason = uint32(binary.BigEndian.Uint16(payload)), string(payload[2:])
			}
			w.write(opClose, payload)
			c.finish(d)
			return
		}
	}
}

// readFrame reads one frame of a server, which sends them unfragmented.
func readFrame(r io.Reader) (op byte, payload []byte, err error) {
	var head [10]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1] & 0x7f)
	switch size {
	case 126:
		_, err = io.ReadFull(r, head[2:4])
		size = uint64(binary.BigEndian.Uint16(head[2:]))
	case 127:
		_, err = io.ReadFull(r, head[2:10])
		size = binary.BigEndian.Uint64(head[2:])
	}
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(r, payload)
	return head[0] & 0x0f, payload, err
}
