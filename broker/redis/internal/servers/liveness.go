package servers

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/quiet"
)

// A connection is checked eight times per IOTimeout, and every maxCheckInterval at least. rueidis would ping each
// connection in a rhythm of its own, and an idle process with many shards would wake up all the time.
const (
	maxCheckInterval = 500 * time.Millisecond
	checksPerTimeout = 8
	// idleChecks without an answer or a command lead to a ping. PUB/SUB brings a canary more often.
	idleChecks = 2
)

// liveness tells whether the server of a connection answers, IOTimeout after its last answer at the latest. Checks are
// counted and no time is measured, so that a standstill of the process itself does not count.
type liveness struct {
	limit               int // checks
	unanswered, waiting int // checks in a row since the last answer, and the checks among them when a command waited
}

// check: heard since the last check, waits for an answer.
func (l *liveness) check(heard, waits bool) (idle, dead bool) {
	if heard {
		l.unanswered, l.waiting = 0, 0
		return false, false
	}
	l.unanswered++
	if waits {
		l.waiting++
	} else {
		l.waiting = 0
	}
	return !waits && l.unanswered >= idleChecks, l.unanswered >= l.limit && 2*l.waiting > l.limit
}

type activity struct {
	heard atomic.Bool // since the last check
	waits atomic.Bool // something was written since the last answer
}

// watchLiveness closes connections whose server does not answer, so that commands fail at once and the next one connects
// again. It pings a server without commands.
func (c *Client) watchLiveness() {
	period := min(maxCheckInterval, c.opts.IOTimeout/checksPerTimeout)
	limit := int(c.opts.IOTimeout/period) - 1 // the server may have stopped right before a check
	timer := time.NewTimer(quiet.UntilBeat(period))
	defer timer.Stop()
	var pinging atomic.Bool
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
			timer.Reset(quiet.UntilBeat(period))
		}
		if c.checkConnections(limit) && pinging.CompareAndSwap(false, true) {
			c.watch.Go(func() {
				defer pinging.Store(false)
				ctx, cancel := context.WithTimeout(c.ctx, c.opts.IOTimeout)
				defer cancel()
				_ = c.redis.Do(ctx, c.redis.B().Ping().Build()).Error() // the next check sees the answer
			})
		}
	}
}

func (c *Client) checkConnections(limit int) (found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.commands {
		if !t.ready.Load() {
			continue // its handshake has a deadline
		}
		t.liveness.limit = limit
		idle, dead := t.liveness.check(t.heard.Swap(false), t.waits.Load())
		found = found || idle
		if dead {
			t.setCause(noAnswer{c.opts.IOTimeout})
			_ = t.Conn.Close()
			delete(c.commands, t)
		}
	}
	return found
}

func (t *trackedConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.waits.Store(false)
		t.heard.Store(true)
	}
	return n, t.ended(err)
}

func (t *trackedConn) Write(p []byte) (int, error) {
	t.waits.Store(true)
	n, err := t.Conn.Write(p)
	return n, t.ended(err)
}

// ended: rueidis closes a connection when a read or a write fails; then the other one fails, too, and that is the error
// which it gives the calls that wait.
func (t *trackedConn) ended(err error) error {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.setCause(err)
	}
	return t.explain(err)
}

func (t *trackedConn) Close() error {
	if t.client.cluster && t.ready.Load() && t.waits.Load() && t.client.ctx.Err() == nil {
		t.setCause(noAnswer{t.client.pingTimeout()}) // rueidis has pinged the server
	}
	t.client.mu.Lock()
	delete(t.client.commands, t)
	t.client.mu.Unlock()
	return t.Conn.Close()
}
