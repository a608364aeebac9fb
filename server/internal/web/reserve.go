package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gyrohq/gyro/transport/front"
)

// Size is how many connections of operators can be accepted when the process has no descriptors left.
const Size = 16

// Reserve keeps file descriptors back, so that operators can connect when clients use all others. A listener for
// operators closes a kept descriptor to accept a connection, and the reserve opens one again when the connection closes.
// Listeners for clients can get such a descriptor in between, so they keep a connection only if the reserve is full
// afterwards. It also logs which listeners lack descriptors. The zero value is empty; any goroutine may use it.
type Reserve struct {
	Logger *slog.Logger // nil: slog.Default()

	mu   sync.Mutex
	size int        // 0 before ForOperators, and when that listener is closed
	held []*os.File // at most size

	trying  sync.Mutex
	lacks   map[string]*lack // by listener
	lacking atomic.Bool      // there are lacks
}

func (r *Reserve) log() *slog.Logger { return cmp.Or(r.Logger, slog.Default()) }

// ForOperators fills the reserve, and returns a listener that uses it, for short requests. Closing the listener empties
// the reserve. name is for the log.
func (r *Reserve) ForOperators(name string, ln net.Listener) net.Listener {
	r.resize(Size)
	return &operators{ln, name, r}
}

// ForClients returns a listener that leaves the reserve alone. name is for the log.
func (r *Reserve) ForClients(name string, ln net.Listener) net.Listener {
	return front.Sparing{
		TCPListener: ln.(*net.TCPListener), Room: r.fill,
		Tried: func(err error) { r.tried(name, ln.Addr(), err) },
	}
}

func (r *Reserve) resize(n int) {
	r.mu.Lock()
	r.size = n
	for len(r.held) > n {
		r.release()
	}
	r.mu.Unlock()
	r.fill()
}

// fill opens descriptors until the reserve is full; false if the system has none.
func (r *Reserve) fill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) < r.size {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return false
		}
		r.held = append(r.held, f)
	}
	return true
}

// spend closes one descriptor for a connection; false if none is held.
func (r *Reserve) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 {
		return false
	}
	r.release()
	return true
}

// release is called with the lock held.
func (r *Reserve) release() {
	last := len(r.held) - 1
	_ = r.held[last].Close()
	r.held = r.held[:last]
}

type operators struct {
	net.Listener
	name    string
	reserve *Reserve
}

// Accept implements net.Listener. While the reserve is used, clients get no descriptors.
func (o *operators) Accept() (net.Conn, error) {
	for {
		nc, err := o.Listener.Accept()
		tcp, isTCP := nc.(*net.TCPConn)
		switch short := errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE); {
		case err == nil && (o.reserve.fill() || !isTCP):
			o.reserve.tried(o.name, o.Addr(), nil)
			return nc, nil
		case err == nil:
			return &borrower{TCPConn: tcp, reserve: o.reserve}, nil
		case !short:
			return nil, err
		default:
			o.reserve.tried(o.name, o.Addr(), err)
			if !o.reserve.spend() {
				return nil, err
			}
		}
	}
}

// Close implements net.Listener.
func (o *operators) Close() error {
	o.reserve.resize(0)
	return o.Listener.Close()
}

// borrower is a connection with a descriptor of the reserve, which it refills.
type borrower struct {
	*net.TCPConn
	reserve *Reserve
}

// Close implements net.Conn.
func (b *borrower) Close() error {
	err := b.TCPConn.Close()
	b.reserve.fill()
	return err
}
