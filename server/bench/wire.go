package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/protocol"
)

const (
	// readSize is the size of the buffers that connections share: they hold one
	// only while bytes are there.
	readSize = 64 << 10
	// maxFrame bounds what a server can make the client allocate.
	maxFrame = 64 << 20
	// connectTimeout bounds an attempt to connect, subscription included.
	connectTimeout = 20 * time.Second
)

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// closeError is a close frame.
type closeError struct {
	code   uint16
	reason string
}

func (e *closeError) Error() string {
	return fmt.Sprintf("closed by the server: %d %s", e.code, e.reason)
}

// link is the client's end of a WebSocket. While it waits it has a goroutine and
// no buffer. One goroutine calls serve; send and cut may be called by any.
type link struct {
	conn net.Conn
	raw  syscall.RawConn // set if reads may go around conn: plain TCP on Unix

	// The following belong to serve.
	held    []byte // the start of a frame whose rest has not come
	need    int    // size of that frame, 0 if its header is not complete
	message []byte // fragments of a message
	partial bool   // message is being gathered
	buf     *[readSize]byte
	n       int // bytes held in buf

	mu sync.Mutex // orders writes
}

// dialLink connects and does the handshake. The link has a deadline of
// connectTimeout, which the caller lifts.
func dialLink(ctx context.Context, t *Target) (*link, error) {
	d := ws.Dialer{
		Timeout:   connectTimeout,
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
	l := &link{conn: conn}
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

// cut ends the connection like a network that fails: without a word, and so that
// the port can be used again at once.
func (l *link) cut() {
	if tcp, ok := l.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // at worst the port is held for a minute
	}
	l.conn.Close()
}

// send writes one frame.
func (l *link) send(op ws.OpCode, payload []byte) error {
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

// serve hands over messages until the connection ends, and says why it did. A
// message is valid until handle returns. handle must not call cut.
func (l *link) serve(handle func(message []byte) error) error {
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
func (l *link) space() []byte {
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
func (l *link) release() {
	if l.buf != nil {
		readBuffers.Put(l.buf)
		l.buf = nil
	}
}

// took handles the n bytes that were read to where space said.
func (l *link) took(n int, handle func([]byte) error) error {
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
func (l *link) consume(data []byte, handle func([]byte) error) error {
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
func (l *link) frame(f frame, payload []byte, handle func([]byte) error) error {
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
		return l.send(ws.OpPong, payload)
	case ws.OpPong:
	case ws.OpClose:
		e := &closeError{code: uint16(ws.StatusNoStatusRcvd)}
		if len(payload) >= 2 {
			e.code, e.reason = binary.BigEndian.Uint16(payload), string(payload[2:])
		}
		return e
	default:
		return fmt.Errorf("the server sends a frame with the unknown opcode %d", f.op)
	}
	return nil
}

// frame is the header of a frame.
type frame struct {
	op     ws.OpCode
	fin    bool
	header int // bytes
	size   int // bytes, header included; 0 if the header is not complete
}

// parseFrame reads the header at the start of data.
func parseFrame(data []byte) (frame, error) {
	if len(data) < 2 {
		return frame{}, nil
	}
	f := frame{op: ws.OpCode(data[0] & 0x0f), fin: data[0]&0x80 != 0, header: 2}
	if data[0]&0x70 != 0 || data[1]&0x80 != 0 {
		return f, errors.New("the server sends a frame with reserved bits or a mask")
	}
	size := uint64(data[1])
	switch size {
	case 126:
		if f.header = 4; len(data) < f.header {
			return f, nil
		}
		size = uint64(binary.BigEndian.Uint16(data[2:]))
	case 127:
		if f.header = 10; len(data) < f.header {
			return f, nil
		}
		size = binary.BigEndian.Uint64(data[2:])
	}
	if size > maxFrame {
		return f, fmt.Errorf("the server sends a frame of %d bytes, the limit is %d", size, maxFrame)
	}
	f.size = f.header + int(size)
	return f, nil
}
