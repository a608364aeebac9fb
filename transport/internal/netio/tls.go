package netio

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

const (
	maxRecord = 16 << 10
	// maxUnasked bounds the bytes for a client that makes the server answer (with new keys, for example) and does not
	// read the answers.
	maxUnasked = 16 << 10
	// maxMessage is the most bytes of an incomplete handshake message after the handshake. The only one that a server
	// expects, KeyUpdate, has 5; crypto/tls would wait for up to 256 KB of another one.
	maxMessage = 4
)

var (
	errFlood   = errors.New("the client asks for more than it reads")
	errMessage = errors.New("the client begins a handshake message that is no KeyUpdate")
)

// TLS is the server's end of TLS, between a socket and the protocol above. It drives a crypto/tls.Conn in two ways.
// At first, and again after Block, that has a net.Conn beneath it, may block, and any goroutine may use it. After
// Attach one goroutine uses the TLS, usually a loop, and it never waits: Read returns complete plaintext, and
// ciphertext that the socket does not take goes to a queue of the caller. While nothing happens it holds no buffer.
//
// The handshake must be over before Attach. Plaintext in the tls.Conn comes with the next Read.
type TLS struct {
	conn *tls.Conn
	wire wire
	lent *Buffer // the memory of conn's input, between Begin and End
}

// NewTLS returns the server's end over nc.
func NewTLS(nc net.Conn, config *tls.Config) *TLS {
	t := &TLS{}
	t.wire = wire{Conn: nc, of: t}
	t.conn = tls.Server(&t.wire, config)
	return t
}

// Conn is for the handshake, and after Block.
func (t *TLS) Conn() *tls.Conn { return t.conn }

// Block puts nc, the same socket, beneath the tls.Conn, which it returns.
func (t *TLS) Block(nc net.Conn) *tls.Conn {
	t.wire = wire{Conn: nc, of: t}
	return t.conn
}

// Attach lets t read and write the non-blocking socket fd. Ciphertext that the socket does not take is appended to *out,
// as is all that follows. The caller writes it, and sets *out to nil then.
func (t *TLS) Attach(fd uintptr, out **Buffer) {
	t.wire = wire{of: t, fd: int32(fd), out: out, used: true}
	t.trim()
}

// Begin begins a series of Reads, for all of which the socket is read once.
func (t *TLS) Begin() {
	t.wire.used, t.wire.dry = false, false
	t.lend()
}

// Read decrypts into p. With 0 and no error nothing more is complete; the caller then calls End. Bytes may come along
// with an error, which is the end.
func (t *TLS) Read(p []byte) (int, error) {
	if t.wire.dry {
		return 0, nil
	}
	t.wire.reading = true
	n, err := t.conn.Read(p)
	t.wire.reading = false
	if hand := handshakeInput(t.conn); hand != nil && hand.Len() > maxMessage {
		err = errMessage
	}
	// To ask the tls.Conn whether there is more takes an allocation.
	raw := rawInput(t.conn)
	t.wire.dry = err != nil || n < len(p) && raw != nil && raw.Len() == 0
	if err == errAgain { //nolint:errorlint // tls.Conn returns the error of the wire as it is
		err = nil
	}
	return n, err
}

// End is called when Read has returned 0 or an error.
func (t *TLS) End() {
	if t.wire.dry {
		t.takeBack()
	}
}

// ReadAll is Begin, Read and End: the plaintext that one read of the socket completes. p should have at least 64 KB.
// Bytes may come along with an error.
func (t *TLS) ReadAll(p []byte) (total int, err error) {
	t.Begin()
	for n := 1; n > 0 && err == nil; {
		n, err = t.Read(p[total:])
		total += n
	}
	t.End()
	return total, err
}

// TryWrite is Stream.TryWrite. It stops when *out is no longer nil. Small frames share a record.
func (t *TLS) TryWrite(frames [][]byte) (total int, err error) {
	for i := 0; i < len(frames) && err == nil && *t.wire.out == nil; {
		if len(frames[i]) == 0 {
			i++
			continue
		}
		p, next, gathered := gather(frames, i)
		var n int
		for n < len(p) && err == nil && *t.wire.out == nil {
			var k int
			k, err = t.conn.Write(p[n:min(len(p), n+maxRecord)])
			n += k
		}
		gathered.Free()
		total += n
		i = next
	}
	return total, err
}

// Queue encrypts p and appends it to *out, which is not nil.
func (t *TLS) Queue(p []byte) error {
	_, err := t.conn.Write(p)
	return err
}

// Buffered returns how many bytes of the client are not complete yet.
func (t *TLS) Buffered() (n int) {
	for _, b := range []*bytes.Buffer{rawInput(t.conn), handshakeInput(t.conn)} {
		if b != nil {
			n += b.Len()
		}
	}
	return n
}

// Congested reports whether *out holds something.
func (t *TLS) Congested() bool { return *t.wire.out != nil }

// CloseWrite tells the client that no more bytes follow, once.
func (t *TLS) CloseWrite() { _ = t.conn.CloseWrite() }

// again is the error of a read that would block. tls.Conn takes it for temporary, also in the middle of a record.
type again struct{}

func (again) Error() string   { return "nothing to read now" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

var errAgain net.Error = again{}

// wire lies beneath a tls.Conn: a net.Conn or, if that is nil, a socket on a loop.
type wire struct {
	net.Conn
	of      *TLS
	out     **Buffer
	fd      int32
	unasked int32 // bytes that were appended to *out as answers to received bytes
	used    bool  // the socket was read
	reading bool  // the tls.Conn is reading
	dry     bool  // nothing more is complete; until then there may be plaintext in of.lent
}

func (w *wire) Read(p []byte) (int, error) {
	if w.Conn != nil {
		return w.Conn.Read(p)
	}
	if w.used {
		return 0, errAgain
	}
	w.used = true
	n, err := TryRead(uintptr(w.fd), p)
	if n == 0 && err == nil {
		err = errAgain
	}
	return n, err
}

func (w *wire) Write(p []byte) (n int, err error) {
	if w.Conn != nil {
		return w.Conn.Write(p)
	}
	if *w.out == nil {
		w.unasked = 0
		n, err = TryWrite(uintptr(w.fd), [][]byte{p})
		if n == len(p) || err != nil {
			return n, err
		}
	}
	rest := p[n:]
	if w.reading {
		if w.unasked += int32(len(rest)); w.unasked > maxUnasked {
			return n, errFlood
		}
	}
	*w.out = (*w.out).Grow(len(rest))
	(*w.out).B = append((*w.out).B, rest...)
	return len(p), nil
}

// SetWriteDeadline does nothing on a loop, where no write waits.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.Conn == nil {
		return nil
	}
	return w.Conn.SetWriteDeadline(t)
}

// Abort closes the connection at once; see abort.
func (w *wire) Abort() { abort(bare(w.Conn)) }

// lend gives the tls.Conn memory for its input, which takeBack takes back.
func (t *TLS) lend() {
	raw := rawInput(t.conn)
	if raw == nil || t.lent != nil {
		return
	}
	t.lent = Get(1 << maxClass)
	t.lent.B = append(t.lent.B, raw.Bytes()...)
	*raw = *bytes.NewBuffer(t.lent.B)
}

func (t *TLS) takeBack() {
	if t.lent == nil {
		return
	}
	t.trim()
	t.lent.Free()
	t.lent = nil
}

// trim frees the memory of the tls.Conn's input, but for an incomplete record.
func (t *TLS) trim() {
	for _, b := range []*bytes.Buffer{rawInput(t.conn), handshakeInput(t.conn)} {
		switch {
		case b == nil:
		case b.Len() == 0:
			*b = bytes.Buffer{}
		default:
			*b = *bytes.NewBuffer(bytes.Clone(b.Bytes()))
		}
	}
}
