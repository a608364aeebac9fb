// Package wire is the client's side of the transports for very many connections in one process: a connection that waits
// costs a goroutine and no buffer, and a message to thousands is decoded once ([Memo]).
package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

const (
	// readSize is the size of shared buffers. A connection holds one while it handles the bytes of a read.
	readSize = 64 << 10
	// maxFrame bounds the memory of a frame, in bytes.
	maxFrame     = 64 << 20
	usualTimeout = 20 * time.Second
)

var readBuffers = sync.Pool{New: func() any { return new([readSize]byte) }}

var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// CloseError is the close frame that ended a connection.
type CloseError = wsclient.CloseError

// StatusNone is the code of a close frame without one.
const StatusNone = wsclient.StatusNone

// ErrTooBig says that the server has sent a message beyond the limit of a client.Conn.
var ErrTooBig = wsclient.ErrTooBig

// Dialer connects to a server. Several goroutines may use it at a time; its fields must not change meanwhile.
type Dialer struct {
	Kind      Kind
	URL       string            // its scheme is one of Kind.Schemes
	Emulation string            // endpoint for the commands of emulated kinds: http or https
	Encoding  protocol.Encoding // of commands and replies
	Header    http.Header       // added to the handshake or the request
	TLS       *tls.Config       // of wss and https; nil for the defaults
	Timeout   time.Duration     // bounds an attempt to connect, subscription included, and each request; 0 for 20 s

	dialed atomic.Uint64
	post   struct { // the requests of emulated kinds
		once  sync.Once
		posts *posts
		err   error
	}
}

// Conn is the client's end of a connection. While it waits for bytes, it has a goroutine and no buffer. One goroutine
// calls Serve; any may call Send, Expect and Cut.
type Conn struct {
	conn  net.Conn
	tcp   *net.TCPConn    // conn, or the connection below its TLS; nil: unknown
	raw   syscall.RawConn // of tcp, for reads without a buffer while there is nothing; nil: not on this system
	below *tcpConn        // beneath TLS; nil: plaintext
	codec codec.ClientCodec
	back  *requests               // sends the commands of emulated kinds; else nil
	life  context.Context         // of the requests of back
	end   context.CancelCauseFunc // of life

	// The following belong to Serve.
	body    *body  // of the response; nil for WebSocket and long polls
	polls   *polls // nil for others
	held    []byte // the start of an incomplete frame
	need    int    // size of that frame, 0 if its header is not complete
	message []byte // fragments of a message
	partial bool   // message is not complete
	buf     *[readSize]byte
	n       int // bytes of held that were copied to the start of buf

	mu sync.Mutex // orders writes
}

// Dial connects and sends the first commands, within the Timeout and until ctx ends; one-way kinds send the connect
// request. The connection fails after another Timeout unless Expect is called before.
func (t *Dialer) Dial(ctx context.Context, first ...*protocol.Command) (*Conn, error) {
	hello, err := t.hello(first)
	if err != nil {
		return nil, err
	}
	if t.Kind.stream {
		return t.dialStream(ctx, first, hello)
	}
	return t.dialFrames(ctx, hello, len(hello) > 0)
}

// DialFrame is Dial with a first frame, which may be malformed. One-way kinds have none.
func (t *Dialer) DialFrame(ctx context.Context, frame []byte) (*Conn, error) {
	if t.Kind.stream {
		return t.dialStream(ctx, nil, frame)
	}
	return t.dialFrames(ctx, frame, true)
}

func (t *Dialer) timeout() time.Duration { return cmp.Or(t.Timeout, usualTimeout) }

func (t *Dialer) dialFrames(ctx context.Context, hello []byte, send bool) (*Conn, error) {
	c, err := t.dialWebSocket(ctx)
	if err == nil && send {
		if err = c.write(c.op(), hello); err != nil {
			c.Cut()
		}
	}
	return c, err
}

func (t *Dialer) hello(first []*protocol.Command) ([]byte, error) {
	if t.Kind.OneWay {
		return first[0].Connect.AppendJSON(nil)
	}
	return appendCommands(nil, codec.ForClient(t.Encoding), first)
}

func (t *Dialer) dialWebSocket(ctx context.Context) (*Conn, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	subprotocol, key := "", wsclient.NewKey()
	if t.Encoding == protocol.Protobuf {
		subprotocol = "centrifuge-protobuf"
	}
	buf := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(buf)
	*buf = wsclient.AppendRequest((*buf)[:0], u.Host, u.RequestURI(), key, subprotocol, t.Header)
	conn, early, err := t.exchange(ctx, u, *buf, func(data []byte) (int, error) {
		size, err := wsclient.ParseAnswer(data, key, subprotocol)
		if refused := (*wsclient.StatusError)(nil); errors.As(err, &refused) {
			err = fmt.Errorf("the server answers the WebSocket handshake with HTTP status %d", refused.Status)
		}
		return size, err
	})
	if err != nil {
		return nil, err
	}
	c := &Conn{conn: conn, codec: codec.ForClient(t.Encoding), held: early}
	c.attach()
	return c, nil
}

func (c *Conn) attach() {
	switch conn := c.conn.(type) {
	case *tcpConn:
		c.conn, c.tcp = conn.TCPConn, conn.TCPConn
	case *tls.Conn:
		if c.below, _ = conn.NetConn().(*tcpConn); c.below != nil {
			c.tcp = c.below.TCPConn
		}
	}
	if c.tcp != nil {
		c.raw = rawReads(c.tcp)
	}
}

type tcpConn struct {
	*net.TCPConn
	polled bool // Read does not wait
	fd     int
	dry    bool // there was nothing more to read
}

func sockets(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &tcpConn{TCPConn: tcp}, err
		}
		return conn, err
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// dialHint explains errors by many connections from one machine.
func dialHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return " (local ports are used up: widen net.ipv4.ip_local_port_range, or use fewer connections)"
	case errors.Is(err, syscall.EMFILE):
		return " (descriptors are used up: ulimit -n)"
	}
	return ""
}

// Expect replaces the deadline: Serve fails after d, even if it receives messages meanwhile, unless Expect is called
// again. 0: no deadline.
func (c *Conn) Expect(d time.Duration) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = c.conn.SetWriteDeadline(time.Time{})
	_ = c.conn.SetReadDeadline(deadline) // a closed connection shows at once
}

// Cut ends the connection by a TCP reset, so that its port can be used again at once. It may be called again.
func (c *Conn) Cut() {
	if c.end != nil {
		c.end(net.ErrClosed)
	}
	if c.tcp == nil {
		c.conn.Close()
		return
	}
	_ = c.tcp.SetLinger(0) // if it fails, the system keeps the port for a minute
	_ = c.tcp.Close()
}

// Address sets node and session of emulated kinds, from the reply to connect. Call it before Send.
func (c *Conn) Address(node, session string) {
	if c.back != nil {
		c.back.node, c.back.session = node, session
	}
}

// Send sends commands in one frame or request, or none of them. Once Serve has returned, a request fails with the same
// error.
func (c *Conn) Send(cmds ...*protocol.Command) error {
	buf := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(buf)
	b, err := appendCommands((*buf)[:0], c.codec, cmds)
	if err != nil {
		return err
	}
	*buf = b
	return c.SendFrame(b)
}

// SendFrame is Send with a frame, which may be malformed.
func (c *Conn) SendFrame(frame []byte) error {
	if c.back == nil {
		return c.write(c.op(), frame)
	}
	ctx, cancel := context.WithTimeout(c.life, c.back.timeout)
	defer cancel()
	err := c.back.send(ctx, frame)
	if err != nil && c.life.Err() != nil {
		return context.Cause(c.life)
	}
	return err
}

func (c *Conn) op() byte {
	if c.codec.Encoding() == protocol.Protobuf {
		return wsclient.OpBinary
	}
	return wsclient.OpText
}

func appendCommands(b []byte, c codec.ClientCodec, cmds []*protocol.Command) (_ []byte, err error) {
	for i, cmd := range cmds {
		if i > 0 && c.Encoding() == protocol.JSON {
			b = append(b, '\n')
		}
		if b, err = c.AppendCommand(b, cmd); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (c *Conn) write(op byte, payload []byte) error {
	return wsclient.WriteFrame(c.conn, &c.mu, op, payload)
}

// Serve hands messages to handle until the connection ends or handle fails, and returns the reason: a *CloseError if the
// server sent a close frame. It answers WebSocket pings, and fails for messages above 64 MiB. A message is valid until
// handle returns. handle must not call Cut.
func (c *Conn) Serve(handle func(message []byte) error) error {
	err := c.serve(handle)
	if c.end != nil {
		c.end(err)
	}
	return err
}

func (c *Conn) serve(handle func(message []byte) error) error {
	early := c.held
	c.held = nil
	if err := c.consume(early, handle); err != nil {
		return err
	}
	if c.raw != nil {
		return c.serveRaw(handle)
	}
	for {
		n, err := c.conn.Read(c.space())
		if n > 0 {
			err = c.took(n, handle)
		} else {
			c.release()
		}
		if err != nil {
			return err
		}
	}
}

// space returns memory behind the held bytes.
func (c *Conn) space() []byte {
	if c.need > readSize { // the frame does not fit a shared buffer
		if cap(c.held) < c.need {
			c.held = append(make([]byte, 0, c.need), c.held...)
		}
		return c.held[len(c.held):c.need]
	}
	c.buf = readBuffers.Get().(*[readSize]byte)
	c.n = copy(c.buf[:], c.held)
	return c.buf[c.n:]
}

func (c *Conn) release() {
	if c.buf != nil {
		readBuffers.Put(c.buf)
		c.buf = nil
	}
}

// took handles n bytes that were read into space.
func (c *Conn) took(n int, handle func([]byte) error) error {
	if c.buf == nil {
		c.held = c.held[:len(c.held)+n]
		if len(c.held) < c.need {
			return nil
		}
		frame := c.held
		c.held = nil
		return c.consume(frame, handle)
	}
	defer c.release()
	c.held = nil
	return c.consume(c.buf[:c.n+n], handle)
}

func (c *Conn) consume(data []byte, handle func([]byte) error) error {
	if c.polls != nil {
		rest, err := c.polls.consume(data, handle)
		c.need = c.polls.size
		c.held = append(c.held[:0:0], rest...)
		return err
	}
	if c.body != nil {
		rest, err := c.body.consume(data, handle)
		c.held = append(c.held[:0:0], rest...)
		return err
	}
	for {
		h, complete, err := wsclient.ParseHeader(data)
		switch {
		case err != nil:
			return err
		case complete && h.Size > maxFrame:
			return fmt.Errorf("the server sends a frame of %d bytes, the limit is %d", h.Size, maxFrame)
		case !complete:
			c.need = 0
		default:
			c.need = h.Head + int(h.Size)
		}
		if c.need == 0 || c.need > len(data) {
			break
		}
		if err := c.frame(h, data[h.Head:c.need], handle); err != nil {
			return err
		}
		data = data[c.need:]
	}
	if len(data) > 0 {
		c.held = append(c.held[:0:0], data...)
	}
	return nil
}

func (c *Conn) frame(h wsclient.Header, payload []byte, handle func([]byte) error) error {
	switch h.Op {
	case wsclient.OpText, wsclient.OpBinary:
		if c.partial {
			return errors.New("the server starts a message within another")
		}
		if h.Fin {
			return handle(payload)
		}
		c.message, c.partial = append(c.message[:0], payload...), true
	case wsclient.OpContinuation:
		if !c.partial || len(c.message)+len(payload) > maxFrame {
			return errors.New("the server sends a fragment that does not fit")
		}
		c.message = append(c.message, payload...)
		if h.Fin {
			message := c.message
			c.message, c.partial = nil, false
			return handle(message)
		}
	case wsclient.OpPing:
		return c.write(wsclient.OpPong, payload)
	case wsclient.OpClose:
		return wsclient.ParseClose(payload)
	}
	return nil
}
