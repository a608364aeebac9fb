package nats

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer makes the connections of the NATS client, one after the other. Events flow from the moment when all
// subscriptions of a connection are confirmed until it ends: so publishers learn at once that there is no connection.
// The NATS client would keep their publications for later.
type dialer struct {
	timeout time.Duration
	number  atomic.Uint64 // of the last connection that was begun
	flowing atomic.Uint64 // the number of the connection over which events flow, or 0
	flows   atomic.Uint64 // how often events began to flow

	mu      sync.Mutex // serialises changes
	current *trackedConn
	changed chan struct{} // closed when events flow again
	err     error         // why they do not flow
}

// trackedConn is closed at the first write that fails, because the bytes of that write are lost, perhaps subscriptions.
type trackedConn struct {
	net.Conn
	dialer *dialer
	closed bool // guarded by dialer.mu
}

func newDialer(timeout time.Duration) *dialer {
	return &dialer{timeout: timeout, changed: make(chan struct{})}
}

// Dial implements natsio.CustomDialer. The timeout covers name resolution.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.number.Add(1)
	// Canaries find out that the server has vanished; keep-alive is for half-open leftovers.
	netDialer := net.Dialer{Timeout: d.timeout, KeepAlive: 15 * time.Second}
	c, err := netDialer.Dial(network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
		return nil, err
	}
	tracked := &trackedConn{Conn: c, dialer: d}
	d.current = tracked
	return tracked, nil
}

func (c *trackedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.dialer.failed(err)
		_ = c.Close() // err is the reason
	}
	return n, err
}

func (c *trackedConn) Close() error {
	c.dialer.mu.Lock()
	c.closed = true
	if c.dialer.current == c {
		c.dialer.flowing.Store(0)
	}
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}

// setFlowing returns false if the connection has ended.
func (d *dialer) setFlowing(number uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.number.Load() != number || d.current == nil || d.current.closed {
		return false
	}
	if d.flowing.Swap(number) == 0 {
		d.flows.Add(1)
		d.err = nil
		close(d.changed)
		d.changed = make(chan struct{})
	}
	return true
}

// failed notes why there is no connection, or soon will be none. net.ErrClosed is no reason: Gyro has closed the
// connection.
func (d *dialer) failed(err error) {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// state tells whether events flow, and why not. changed is closed when they flow again.
func (d *dialer) state() (up bool, changed <-chan struct{}, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flowing.Load() != 0, d.changed, d.err
}

// cut ends the connection. The NATS client makes another one then.
func (d *dialer) cut(err error) {
	d.mu.Lock()
	c := d.current
	d.err = err
	d.mu.Unlock()
	if c != nil {
		_ = c.Close() // the reason is given
	}
}
