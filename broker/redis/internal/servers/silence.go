package servers

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/quiet"
)

// The connection for commands to a server is looked at eight times per IOTimeout, and every maxLook at least. rueidis would
// ping each connection in a rhythm of its own, and an idle process with many shards would wake up all the time.
const (
	maxLook         = 500 * time.Millisecond
	looksPerTimeout = 8
	// After restLooks looks without an answer, and without a command that waits for one, the server is pinged. A shard with
	// PUB/SUB gets a canary more often.
	restLooks = 2
)

// silence judges by looks at a connection whether its server answers. A server that has stopped answering is noticed
// IOTimeout after its last answer at the latest. Looks are counted and no time is measured, so that a standstill of the
// process itself is no silence.
type silence struct {
	limit            int // looks
	unheard, waiting int // looks in a row since the last answer, and the looks among them when a command waited
}

// look takes in one look: whether the server has sent something since the last one, and whether a command waits.
func (s *silence) look(heard, waits bool) (rests, dead bool) {
	if heard {
		s.unheard, s.waiting = 0, 0
		return false, false
	}
	s.unheard++
	if waits {
		s.waiting++
	} else {
		s.waiting = 0
	}
	return !waits && s.unheard >= restLooks, s.unheard >= s.limit && 2*s.waiting > s.limit
}

// activity is the state of a connection for looks at it.
type activity struct {
	heard atomic.Bool // since the last look
	waits atomic.Bool // something was written since the last answer
}

// watchSilence closes connections whose server does not answer, so that commands fail at once and the next one connects
// again. It pings a server that gets no commands.
func (c *Client) watchSilence() {
	period := min(maxLook, c.opts.IOTimeout/looksPerTimeout)
	limit := int(c.opts.IOTimeout/period) - 1 // the server may have stopped right before a look
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
		if c.rests(limit) && pinging.CompareAndSwap(false, true) {
			c.watch.Go(func() {
				defer pinging.Store(false)
				ctx, cancel := context.WithTimeout(c.ctx, c.opts.IOTimeout)
				defer cancel()
				_ = c.redis.Do(ctx, c.redis.B().Ping().Build()).Error() // the next look sees the answer
			})
		}
	}
}

// rests looks at all connections, closes those that are dead, and reports whether one rests.
func (c *Client) rests(limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := false
	for t := range c.commands {
		if !t.ready.Load() {
			continue // its handshake has a deadline
		}
		t.silence.limit = limit
		rests, dead := t.silence.look(t.heard.Swap(false), t.waits.Load())
		found = found || rests
		if dead {
			t.because(noAnswer{c.opts.IOTimeout})
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

// ended returns why the connection has ended, for an error that a read or a write returns. rueidis closes a connection when one of
// the two fails; then the other one fails, too, and that is the error which it gives the calls that wait.
func (t *trackedConn) ended(err error) error {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.because(err)
	}
	return t.explain(err)
}

func (t *trackedConn) Close() error {
	if t.client.cluster && t.ready.Load() && t.waits.Load() && t.client.ctx.Err() == nil {
		t.because(noAnswer{t.client.pingTimeout()}) // rueidis has pinged the server
	}
	t.client.mu.Lock()
	delete(t.client.commands, t)
	t.client.mu.Unlock()
	return t.Conn.Close()
}
