// Package wire is the client's side of a WebSocket, made for holding very many of
// them in one process: a connection that waits costs a goroutine and no buffer, and
// what a server sends to thousands is decoded once ([Memo]).
package wire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

const (
	// readSize is the size of the buffers that connections share: they hold one
	// only while bytes are there.
	readSize = 64 << 10
	// maxFrame bounds what a server can make the client allocate, in bytes.
	maxFrame = 64 << 20
	// connectTimeout bounds an attempt to connect, subscription included.
	connectTimeout = 20 * time.Second
)

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

var commandBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// CloseError is the close frame that ended a connection.
type CloseError struct {
	Code   uint16 // 1005 if the frame has none
	Reason string
}

// Error says that the server closed the connection, and why.
func (e *CloseError) Error() string {
	return fmt.Sprintf("closed by the server: %d %s", e.Code, e.Reason)
}

// Dialer connects to a server. It must not be changed while it is used, and may be
// used by several goroutines.
type Dialer struct {
	URL      string            // ws or wss
	Encoding protocol.Encoding // of commands and replies
	Header   http.Header       // of the handshake, beyond what it needs
	TLS      *tls.Config       // of wss; nil for the defaults

	dialed atomic.Uint64
}

// Link is the client's end of a WebSocket. While it waits it has a goroutine and
// no buffer. One goroutine calls Serve; Send, Expect and Cut may be called by any.
type Link struct {
	conn  net.Conn
	raw   syscall.RawConn // set if reads may go around conn: plain TCP on Unix
	codec codec.ClientCodec

	// The following belong to Serve.
	held    []byte // the start of a frame whose rest has not come
	need    int    // size of that frame, 0 if its header is not complete
	message []byte // fragments of a message
	partial bool   // message is being gathered
	buf     *[readSize]byte
	n       int // bytes held in buf

	mu sync.Mutex // orders writes
}

// Dial connects and does the handshake, in 20 seconds at most and while ctx lasts. The
// link it returns fails another 20 seconds later, unless Expect is called before.
func (t *Dialer) Dial(ctx context.Context) (*Link, error) {
	d := ws.Dialer{
		Timeout:   connectTimeout,
		NetDial:   local(t.URL, t.dialed.Add(1)),
		TLSConfig: t.TLS,
		Header:    ws.HandshakeHeaderHTTP(t.Header),
	}
	if t.Encoding == protocol.Protobuf {
		d.Protocols = []string{"centrifuge-protobuf"}
	}
	conn, br, hs, err := d.Dial(ctx, t.URL)
	if err != nil {
		var status ws.StatusError
		if errors.As(err, &status) {
			return nil, fmt.Errorf("%s: the server answers the WebSocket handshake with HTTP status %d", t.URL, int(status))
		}
		return nil, fmt.Errorf("%s: %w%s", t.URL, err, dialHint(err))
	}
	if len(d.Protocols) > 0 && hs.Protocol != d.Protocols[0] {
		conn.Close()
		return nil, fmt.Errorf("%s: the server does not speak Protobuf (subprotocol %s)", t.URL, d.Protocols[0])
	}
	_ = conn.SetDeadline(time.Now().Add(connectTimeout)) // a closed connection shows at once
	l := &Link{conn: conn, codec: codec.ForClient(t.Encoding)}
	if br != nil {
		early, _ := br.Peek(br.Buffered())
		l.held = append(l.held, early...)
		ws.PutReader(br)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		l.raw = rawReads(tcp)
	}
	return l, nil
}

// dialHint helps with what many connections from one machine meet.
func dialHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return " (local ports are used up: widen net.ipv4.ip_local_port_range, or use fewer connections)"
	case errors.Is(err, syscall.EMFILE):
		return " (descriptors are used up: ulimit -n)"
	}
	return ""
}

// Expect lifts the deadline of connecting. Serve ends d from now, unless Expect is
// called again before: whatever comes in between does not count. With 0 it waits for
// ever.
func (l *Link) Expect(d time.Duration) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = l.conn.SetWriteDeadline(time.Time{})
	_ = l.conn.SetReadDeadline(deadline) // a closed connection shows at once
}

// Cut ends the connection like a network that fails: without a word, and so that
// the port can be used again at once. It may be called again.
func (l *Link) Cut() {
	if tcp, ok := l.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst the port is held for a minute
	}
	l.conn.Close()
}

// Send sends commands in one frame, or none of them.
func (l *Link) Send(cmds ...*protocol.Command) error {
	buf := commandBuffers.Get().(*[]byte)
	defer commandBuffers.Put(buf)
	b, op := (*buf)[:0], ws.OpText
	if l.codec.Encoding() == protocol.Protobuf {
		op = ws.OpBinary
	}
	var err error
	for i, cmd := range cmds {
		if i > 0 && op == ws.OpText {
			b = append(b, '\n')
		}
		if b, err = l.codec.AppendCommand(b, cmd); err != nil {
			return err
		}
	}
	*buf = b
	return l.write(op, b)
}

// write writes one frame.
func (l *Link) write(op ws.OpCode, payload []byte) error {
	buf := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(buf)
	b := append((*buf)[:0], 0x80|byte(op))
	switch size := len(payload); {
	case size < 126:
		b = append(b, 0x80|byte(size))
	case size <= 0xffff:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(size))
	}
	var mask [4]byte
	binary.NativeEndian.PutUint32(mask[:], rand.Uint32())
	b = append(b, mask[:]...)
	start := len(b)
	b = append(b, payload...)
	ws.Cipher(b[start:], mask, 0)
	*buf = b
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.conn.Write(b)
	return err
}

// Serve hands over messages until the connection ends or handle fails, and says why:
// with a *CloseError if the server closed it. It answers pings of WebSocket, and
// refuses messages above 64 MiB. A message is valid until handle returns. handle must
// not call Cut.
func (l *Link) Serve(handle func(message []byte) error) error {
	early := l.held
	l.held = nil
	if err := l.consume(early, handle); err != nil {
		return err
	}
	if l.raw != nil {
		return l.serveRaw(handle)
	}
	for {
		n, err := l.conn.Read(l.space())
		if n > 0 {
			err = l.took(n, handle)
		} else {
			l.release()
		}
		if err != nil {
			return err
		}
	}
}

// space returns where to read, behind the bytes held.
func (l *Link) space() []byte {
	if l.need > readSize { // more than a shared buffer holds
		if cap(l.held) < l.need {
			l.held = append(make([]byte, 0, l.need), l.held...)
		}
		return l.held[len(l.held):l.need]
	}
	l.buf = readBuffers.Get().(*[readSize]byte)
	l.n = copy(l.buf[:], l.held)
	return l.buf[l.n:]
}

// release gives the shared buffer back, if there is one.
func (l *Link) release() {
	if l.buf != nil {
		readBuffers.Put(l.buf)
		l.buf = nil
	}
}

// took handles the n bytes that were read to where space said.
func (l *Link) took(n int, handle func([]byte) error) error {
	if l.buf == nil {
		l.held = l.held[:len(l.held)+n]
		if len(l.held) < l.need {
			return nil
		}
		frame := l.held
		l.held = nil
		return l.consume(frame, handle)
	}
	defer l.release()
	l.held = nil
	return l.consume(l.buf[:l.n+n], handle)
}

// consume handles the frames of data and holds a copy of what is left.
func (l *Link) consume(data []byte, handle func([]byte) error) error {
	for {
		f, err := parseFrame(data)
		if err != nil {
			return err
		}
		if l.need = f.size; f.size == 0 || f.size > len(data) {
			break
		}
		if err := l.frame(f, data[f.header:f.size], handle); err != nil {
			return err
		}
		data = data[f.size:]
	}
	if len(data) > 0 {
		l.held = append(l.held[:0:0], data...)
	}
	return nil
}

// frame handles one frame.
func (l *Link) frame(f frame, payload []byte, handle func([]byte) error) error {
	switch f.op {
	case ws.OpText, ws.OpBinary:
		if l.partial {
			return errors.New("the server starts a message within another")
		}
		if f.fin {
			return handle(payload)
		}
		l.message, l.partial = append(l.message[:0], payload...), true
	case ws.OpContinuation:
		if !l.partial || len(l.message)+len(payload) > maxFrame {
			return errors.New("the server sends a fragment that does not fit")
		}
		l.message = append(l.message, payload...)
		if f.fin {
			message := l.message
			l.message, l.partial = nil, false
			return handle(message)
		}
	case ws.OpPing:
		return l.write(ws.OpPong, payload)
	case ws.OpPong:
	case ws.OpClose:
		e := &CloseError{Code: uint16(ws.StatusNoStatusRcvd)}
		if len(payload) >= 2 {
			e.Code, e.Reason = binary.BigEndian.Uint16(payload), string(payload[2:])
		}
		return e
	default:
		return fmt.Errorf("the server sends a frame with the unknown opcode %d", f.op)
	}
	return nil
}
