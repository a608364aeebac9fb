package nats

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer makes the connections of the NATS client, one after the other, and knows when events
// flow: from the moment at which all subscriptions of a connection are confirmed until the
// connection ends. So publishers learn at once that there is no connection; the NATS client
// would keep what they publish for later.
type dialer struct {
	timeout time.Duration
	number  atomic.Uint64 // of the last connection that was begun
	flowing atomic.Uint64 // the number of the connection over which events flow, or 0
	flows   atomic.Uint64 // how often events began to flow

	mu      sync.Mutex // serialises changes
	current *wire
	changed chan struct{} // closed when events flow again
	err     error         // why they do not flow
}

// wire is a connection. It is closed at the first write that fails, because what the NATS
// client wanted to write is lost then, perhaps subscriptions.
type wire struct {
	net.Conn
	dialer *dialer
	closed bool // guarded by dialer.mu
}

func newDialer(timeout time.Duration) *dialer {
	return &dialer{timeout: timeout, changed: make(chan struct{})}
}

// Dial implements the client's CustomDialer. The timeout covers name resolution.
func (l *dialer) Dial(network, address string) (net.Conn, error) {
	l.number.Add(1)
	// Canaries find out that the server has vanished; keep-alive is for half-open leftovers.
	d := net.Dialer{Timeout: l.timeout, KeepAlive: 15 * time.Second}
	c, err := d.Dial(network, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = err
		return nil, err
	}
	w := &wire{Conn: c, dialer: l}
	l.current = w
	return w, nil
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.dialer.failed(err)
		_ = w.Close() // err is the reason
	}
	return n, err
}

func (w *wire) Close() error {
	w.dialer.mu.Lock()
	w.closed = true
	if w.dialer.current == w {
		w.dialer.flowing.Store(0)
	}
	w.dialer.mu.Unlock()
	return w.Conn.Close()
}

// confirmed notes that events flow over a connection. It returns false if that has ended.
func (l *dialer) confirmed(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.number.Load() != number || l.current == nil || l.current.closed {
		return false
	}
	if l.flowing.Swap(number) == 0 {
		l.flows.Add(1)
		l.err = nil
		close(l.changed)
		l.changed = make(chan struct{})
	}
	return true
}

// failed notes why there is no connection, or soon will be none. net.ErrClosed is not a
// reason: it means that Gyro has closed the connection.
func (l *dialer) failed(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// state tells whether events flow and, if they do not, why. changed is closed when they flow
// again.
func (l *dialer) state() (up bool, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flowing.Load() != 0, l.changed, l.err
}

// cut ends the current connection. The NATS client makes another one then.
func (l *dialer) cut(err error) {
	l.mu.Lock()
	w := l.current
	l.err = err
	l.mu.Unlock()
	if w != nil {
		_ = w.Close() // the reason is given
	}
}
