package front

import (
	"bytes"
	"container/list"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gyrohq/gyro/transport/internal/netio"
)

const (
	// maxHandshakes is how many handshakes may wait for their clients. Each holds some 30 KB. If
	// there are more, the one that has waited longest is given up.
	maxHandshakes = 2048
	// maxCompute is how long a handshake may compute before another one may do so beside it. After
	// so long it is not computing, but in a callback of tls.Config that waits for something.
	maxCompute = 20 * time.Millisecond
	// recordOfHandshake is the first byte of a client that speaks TLS.
	recordOfHandshake = 22
)

var (
	errTooMany = errors.New("too many handshakes wait for their clients, this one the longest")
	errNotTLS  = errors.New("not TLS")
	errPanic   = errors.New("a callback of tls.Config panicked")
)

// handshakes are the TLS handshakes of a listener that are under way. A handshake takes 0.1 to 2 ms
// of CPU, so only as many compute at a time as there are processors, and before each step they let
// the loops go first. Those that wait for their clients do not count for that.
type handshakes struct {
	front  *Listener
	config *tls.Config
	slots  int // how many compute at a time
	limit  int // how many wait for their clients

	mu        sync.Mutex
	fresh     []*handshake // have not begun; the oldest first
	answered  []*handshake // wait for a slot, which they get before fresh ones
	computing []*handshake // have a slot
	waiting   list.List    // of *handshake, for their clients; the longest first
	timer     *time.Timer  // takes slots back; nil: nobody waits for one
}

// handshake is a TLS handshake, which has a goroutine from its turn on. It is the net.Conn beneath
// its tls.Conn until it is over. The goroutine reads and writes the socket; the loop closes it, and
// watches it while the handshake waits for its client.
type handshake struct {
	all  *handshakes
	n    *newcomer
	tls  *netio.TLS
	turn chan struct{} // has an element once the handshake may go on
	read bool          // something was read
	not  []byte        // what was read instead of TLS

	// used on the loop
	lent bool          // the loop watches the socket
	over bool          // the handshake succeeded
	out  *netio.Buffer // what the socket did not take after that

	// under all.mu
	began time.Time     // of computing
	place *list.Element // in all.waiting; nil: it does not wait
	err   error         // why it has to end
}

func newHandshakes(l *Listener, config *tls.Config) *handshakes {
	return &handshakes{front: l, config: config, slots: runtime.GOMAXPROCS(0), limit: maxHandshakes}
}

// start begins the handshake of a newcomer when it is its turn.
func (h *handshakes) start(n *newcomer) *handshake {
	s := &handshake{all: h, n: n, turn: make(chan struct{}, 1)}
	s.tls = netio.NewTLS(s, h.config)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = append(h.fresh, s)
	h.fill()
	return s
}

// fill gives slots that are free to those who wait for one. The caller holds the lock.
func (h *handshakes) fill() {
	for len(h.computing) < h.slots {
		var s *handshake
		switch {
		case len(h.answered) > 0:
			s, h.answered = first(h.answered)
			s.turn <- struct{}{}
		case len(h.fresh) > 0:
			s, h.fresh = first(h.fresh)
			go s.run()
		default:
			return
		}
		s.began = time.Now()
		h.computing = append(h.computing, s)
	}
	if h.timer == nil && len(h.answered)+len(h.fresh) > 0 {
		h.timer = time.AfterFunc(maxCompute, h.relieve)
	}
}

// first takes the first element off a list.
func first(list []*handshake) (*handshake, []*handshake) {
	s := list[0]
	list[0] = nil
	if list = list[1:]; len(list) == 0 {
		list = nil
	}
	return s, list
}

// relieve takes slots back that are held for too long.
func (h *handshakes) relieve() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	since := time.Now().Add(-maxCompute)
	h.computing = slices.DeleteFunc(h.computing, func(s *handshake) bool { return s.began.Before(since) })
	h.fill()
}

// release takes back the slot of s. The caller holds the lock.
func (h *handshakes) release(s *handshake) {
	h.computing = slices.DeleteFunc(h.computing, func(other *handshake) bool { return other == s })
}

// resume lets s go on if it waits for its client. With an error, s ends now or at its next step.
func (h *handshakes) resume(s *handshake, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake(s, err)
	h.fill()
}

// wake is resume for callers that hold the lock and call fill.
func (h *handshakes) wake(s *handshake, err error) {
	if s.err == nil {
		s.err = err
	}
	if s.place != nil {
		h.waiting.Remove(s.place)
		s.place = nil
		h.answered = append(h.answered, s)
	}
}

// run does the handshake.
func (s *handshake) run() {
	runtime.Gosched() // loops first
	err := s.failure()
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

// finish brings the outcome to the loop.
func (s *handshake) finish(err error) {
	h, in := s.all, s.n.intake
	h.mu.Lock()
	h.release(s)
	h.fill()
	h.mu.Unlock()
	if err != nil && s.not == nil {
		h.front.logf("http: TLS handshake error from %s: %v", s.n.remote, err)
	}
	if !in.loop.Post(func() { in.settle(s, err) }) {
		netio.CloseFD(uintptr(s.n.fd), false)
	}
}

// failure tells why the handshake has to end, if it has to.
func (s *handshake) failure() error {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.err
}

// wait waits until the socket is ready. Meanwhile others compute.
func (s *handshake) wait(write bool) error {
	h, in := s.all, s.n.intake
	h.mu.Lock()
	if s.err != nil {
		h.mu.Unlock()
		return s.err
	}
	h.release(s)
	s.place = h.waiting.PushBack(s)
	if h.waiting.Len() > h.limit {
		h.wake(h.waiting.Front().Value.(*handshake), errTooMany)
	}
	h.fill()
	h.mu.Unlock()
	if !in.loop.Post(func() { in.lend(s, write) }) {
		h.resume(s, net.ErrClosed)
	}
	<-s.turn
	runtime.Gosched() // loops first
	return s.failure()
}

func (s *handshake) Read(p []byte) (int, error) {
	for {
		n, err := netio.TryRead(uintptr(s.n.fd), p)
		switch {
		case n > 0 && !s.read && p[0] != recordOfHandshake:
			s.not = bytes.Clone(p[:n])
			return 0, errNotTLS
		case n > 0 || err != nil:
			s.read = true
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

// lend watches the socket for a handshake that waits.
func (in *intake) lend(s *handshake, write bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	err := net.ErrClosed
	if !s.n.gone {
		err = in.loop.Watch(int(s.n.fd), s.n, !write, write)
	}
	if err != nil {
		s.all.resume(s, err)
		return
	}
	s.lent = true
}

// unlend ends lend.
func (in *intake) unlend(s *handshake) {
	if s.lent {
		s.lent = false
		in.loop.Unwatch(int(s.n.fd))
	}
}

// secured reports whether the TLS handshake of a newcomer is over. If it has yet to begin, or waits
// for the socket, it can now go on.
func (in *intake) secured(n *newcomer) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch s := n.tls; {
	case n.gone:
	case s == nil:
		in.loop.Unwatch(int(n.fd))
		n.tls = in.front.handshakes.start(n)
	case !s.over:
		in.unlend(s)
		s.all.resume(s, nil)
	default:
		return true
	}
	return false
}

// abandon ends a handshake; settle closes the connection then.
func (in *intake) abandon(s *handshake) {
	in.unlend(s)
	err := os.ErrDeadlineExceeded
	if in.closed {
		err = net.ErrClosed
	}
	s.all.resume(s, err)
}

// settle goes on after a handshake.
func (in *intake) settle(s *handshake, err error) {
	n := s.n
	in.mu.Lock()
	in.unlend(s)
	switch {
	case n.gone:
		err = net.ErrClosed
		netio.CloseFD(uintptr(n.fd), false)
	case err == nil:
		err = in.welcome(s)
	default:
		in.remove(n)
		if s.not == nil {
			netio.CloseFD(uintptr(n.fd), false)
			break
		}
		unknown := newIncoming(netio.Socket{FD: uintptr(n.fd), Remote: n.remote}, nil, false)
		unknown.sealed = s.not
		in.front.passUnread(unknown)
	}
	in.mu.Unlock()
	if err == nil {
		n.Ready(true, false) // the request may have come with the end of the handshake
	}
}

// welcome begins to wait for the first request on a TLS connection. It returns an error if the
// connection goes to net/http, because it does not speak HTTP/1.1, or is closed.
func (in *intake) welcome(s *handshake) error {
	n := s.n
	in.remove(n)
	s.over = true
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
