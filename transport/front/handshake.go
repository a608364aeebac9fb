package front

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/gyrohq/gyro/transport/front/internal/slots"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

const (
	// maxHandshakes is how many handshakes may wait for their clients. Each holds some 30 KB. Above it, the one that has
	// waited longest is given up.
	maxHandshakes = 2048
	// maxCompute is how long a handshake may compute before another one may do so beside it: by then it is in a callback
	// of tls.Config that waits for something.
	maxCompute        = 20 * time.Millisecond
	recordOfHandshake = 22
)

var (
	errTooMany = errors.New("too many handshakes wait for their clients, this one the longest")
	errNotTLS  = errors.New("not TLS")
	errHello   = fmt.Errorf("the ClientHello has more than %d bytes", maxHello)
	errLong    = fmt.Errorf("the handshake has more than %d bytes", maxHandshake)
	errPanic   = errors.New("a callback of tls.Config panicked")
)

// handshakes are the TLS handshakes of a listener. One takes 0.1 to 2 ms of CPU, so only as many compute at a time as
// there are processors, and before each step they let the loops go first.
type handshakes struct {
	front  *Listener
	config *tls.Config
	slots  *slots.Slots
}

// handshake is a TLS handshake, and the net.Conn beneath its tls.Conn. Its goroutine reads and writes the socket; the
// loop closes it, and watches it while the handshake waits for its client.
type handshake struct {
	all   *handshakes
	n     *loopConn
	tls   *netio.TLS
	task  slots.Task
	read  int
	hello hello
	// plain has the first bytes of a client that does not speak TLS.
	plain []byte

	// used on the loop
	watched bool
	done    bool          // the handshake succeeded
	out     *netio.Buffer // bytes after the handshake that the socket did not take
}

func newHandshakes(l *Listener, config *tls.Config) *handshakes {
	return &handshakes{front: l, config: config, slots: slots.New(runtime.GOMAXPROCS(0), maxHandshakes, maxCompute, errTooMany)}
}

func (h *handshakes) start(n *loopConn) *handshake {
	s := &handshake{all: h, n: n}
	s.tls = netio.NewTLS(s, h.config)
	h.slots.Start(&s.task, s.run)
	return s
}

func (s *handshake) run() {
	err := s.task.Err()
	defer func() {
		if p := recover(); p != nil {
			s.all.front.recovered(p, s.n.remote.String())
			err = errPanic
		}
		s.finish(err)
	}()
	if err == nil {
		err = s.tls.Conn().Handshake()
	}
}

func (s *handshake) finish(err error) {
	in := s.n.intake
	s.task.Done()
	if err != nil && s.plain == nil {
		in.front.logf("http: TLS handshake error from %s: %v", s.n.remote, err)
	}
	if !in.loop.Post(func() { in.handshakeDone(s, err) }) {
		netio.CloseFD(uintptr(s.n.fd), false)
	}
}

// wait waits until the socket is ready. Meanwhile others compute.
func (s *handshake) wait(write bool) error {
	in := s.n.intake
	return s.task.Wait(func() {
		if !in.loop.Post(func() { in.watchHandshake(s, write) }) {
			s.task.Resume(net.ErrClosed)
		}
	})
}

func (s *handshake) Read(p []byte) (int, error) {
	for {
		n, err := netio.TryRead(uintptr(s.n.fd), p)
		switch {
		case n > 0 && s.read == 0 && p[0] != recordOfHandshake:
			s.plain = bytes.Clone(p[:n])
			return 0, errNotTLS
		case n > 0:
			if s.read += n; s.read > maxHandshake {
				return 0, errLong
			}
			if long := s.hello.length(p[:n]); long > maxHello && long <= maxHandshake { // crypto/tls refuses longer ones at once
				return 0, errHello
			}
			return n, err
		case err != nil:
			return n, err
		}
		if err := s.wait(false); err != nil {
			return 0, err
		}
	}
}

func (s *handshake) Write(p []byte) (total int, err error) {
	for {
		n, err := netio.TryWrite(uintptr(s.n.fd), [][]byte{p[total:]})
		if total += n; total == len(p) || err != nil {
			return total, err
		}
		if err := s.wait(true); err != nil {
			return total, err
		}
	}
}

// Callbacks of tls.Config may ask for the addresses.

func (s *handshake) LocalAddr() net.Addr  { return s.all.front.Addr() }
func (s *handshake) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.n.remote) }

// The intake closes the socket, and has a timer.

func (s *handshake) Close() error                     { return nil }
func (s *handshake) SetDeadline(time.Time) error      { return nil }
func (s *handshake) SetReadDeadline(time.Time) error  { return nil }
func (s *handshake) SetWriteDeadline(time.Time) error { return nil }

func (in *intake) watchHandshake(s *handshake, write bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	err := net.ErrClosed
	if !s.n.gone {
		err = in.loop.Watch(int(s.n.fd), s.n, !write, write)
	}
	if err != nil {
		s.task.Resume(err)
		return
	}
	s.watched = true
}

func (in *intake) unwatchHandshake(s *handshake) {
	if s.watched {
		s.watched = false
		in.loop.Unwatch(int(s.n.fd))
	}
}

// secured reports whether the handshake of n is over. If it has yet to begin, or waits for the socket, it goes on.
func (in *intake) secured(n *loopConn) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch s := n.tls; {
	case n.gone:
	case s == nil:
		in.loop.Unwatch(int(n.fd))
		n.tls = in.front.handshakes.start(n)
	case !s.done:
		in.unwatchHandshake(s)
		s.task.Resume(nil)
	default:
		return true
	}
	return false
}

func (in *intake) abandon(s *handshake) {
	in.unwatchHandshake(s)
	err := os.ErrDeadlineExceeded
	if in.closed {
		err = net.ErrClosed
	}
	s.task.Resume(err)
}

func (in *intake) handshakeDone(s *handshake, err error) {
	n := s.n
	in.mu.Lock()
	in.unwatchHandshake(s)
	switch {
	case n.gone:
		err = net.ErrClosed
		netio.CloseFD(uintptr(n.fd), false)
	case err == nil:
		err = in.handshakeSucceeded(s)
	default:
		in.remove(n)
		if s.plain == nil {
			netio.CloseFD(uintptr(n.fd), false)
			break
		}
		unknown := newIncoming(netio.Socket{FD: uintptr(n.fd), Remote: n.remote}, nil, false)
		unknown.raw = s.plain
		in.front.passUnread(unknown)
	}
	in.mu.Unlock()
	if err == nil {
		n.Ready(true, false) // the request may have come with the end of the handshake
	}
}

// handshakeSucceeded begins to wait for the first request. An error: the connection goes to net/http, because it does
// not speak HTTP/1.1, or is closed.
func (in *intake) handshakeSucceeded(s *handshake) error {
	n := s.n
	in.remove(n)
	s.done = true
	s.tls.Attach(uintptr(n.fd), &s.out)
	if p := s.tls.Conn().ConnectionState().NegotiatedProtocol; p != "" && p != "http/1.1" {
		in.handOver(n, nil, false)
		return errForeign
	}
	if err := in.loop.Watch(int(n.fd), n, true, false); err != nil {
		netio.CloseFD(uintptr(n.fd), false)
		return err
	}
	in.await(&in.waiting, n)
	return nil
}
