package driver

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// maxQueued is how many bytes Write takes that cannot be written now. More would weaken the bound of the queue that they
// come from.
const maxQueued = 32 << 10

// wakeUp is a read deadline that makes a read return at once.
var wakeUp = time.Unix(1, 0)

// StreamConn implements transport.Conn with a goroutine that reads, run, and another one that writes while the stream
// is congested, flush. They hold peerMu while they call the peer, and not mu: the peer may call the methods of
// transport.Conn.
type StreamConn[E any, P pointer[E]] struct {
	stream netio.Stream

	peerMu sync.Mutex
	peer   transport.Peer // nil before accepting and after Closed

	mu         sync.Mutex
	conn[E, P]               // under mu, except the fields that Next and Rest of the endpoint use
	resume     chan struct{} // closed when a pause ends; nil if no goroutine waits

	flushes sync.WaitGroup // they begin in phases before gone only
}

// NewStreamConn makes a connection of a stream, which it owns from now on.
func NewStreamConn[E any, P pointer[E]](stream netio.Stream, e E) *StreamConn[E, P] {
	c := &StreamConn[E, P]{stream: stream}
	c.endpoint = e
	return c
}

// Serve hands the connection to a and serves it until its end; with fresh on a new goroutine, to free the caller's,
// whose stack the handshake has grown.
func (c *StreamConn[E, P]) Serve(a transport.Acceptor, n Candidate, fresh bool) {
	c.peerMu.Lock() // no goroutine calls the peer before it is set
	accepted := false
	defer func() {
		if !accepted { // the acceptor panicked
			c.peerMu.Unlock()
			c.locked(func() { c.lose(c, errClosed, false) })
			c.finish()
		}
	}()
	peer, err := a.Accept(n.Ctx, c, n.Info)
	accepted = true
	c.peer = peer
	c.peerMu.Unlock()
	if err != nil {
		c.refuse(refusalOf(err))
	}
	if fresh {
		go c.run(n.Message, n.Early)
		return
	}
	c.run(n.Message, n.Early)
}

func (c *StreamConn[E, P]) refuse(d protocol.Disconnect) {
	c.locked(func() { c.end(c, P(&c.endpoint).Fail(d, d), nil) })
}

func (c *StreamConn[E, P]) receive(message []byte) {
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Receive(message)
	}
}

func (c *StreamConn[E, P]) writable() {
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Writable()
	}
}

// notifyClosed is the last call of the peer.
func (c *StreamConn[E, P]) notifyClosed() {
	var cause error
	c.locked(func() { cause = c.getExtra().cause })
	c.peerMu.Lock()
	defer c.peerMu.Unlock()
	if c.peer != nil {
		c.peer.Closed(cause)
		c.peer = nil
	}
}

func (c *StreamConn[E, P]) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// run reads until the connection ends, then closes the stream and calls Peer.Closed.
func (c *StreamConn[E, P]) run(message, early []byte) {
	defer func() {
		if r := recover(); r != nil {
			c.crash(&transport.Panic{Reason: r, Stack: debug.Stack()})
		}
	}()
	c.locked(func() { c.apply(c, P(&c.endpoint).Begin()) })
	if message != nil {
		c.receive(message)
	}
	c.consume(early)
	c.read()
	c.finish()
}

func (c *StreamConn[E, P]) crash(p *transport.Panic) {
	if !c.mu.TryLock() {
		c.stream.Abort() // the goroutine panicked while it held mu
		return
	}
	c.end(c, P(&c.endpoint).Fail(protocol.DisconnectServerError, p), nil)
	c.mu.Unlock()
	c.finish()
}

func (c *StreamConn[E, P]) read() {
	reads := 0
	for {
		switch ph, listens := c.await(); {
		case !listens, ph == gone && reads == lastReads:
			return
		case ph == gone:
			reads++
		}
		b, err := c.stream.Read()
		if err != nil {
			c.locked(func() {
				switch expired := errors.Is(err, os.ErrDeadlineExceeded); {
				case expired && c.phase == awaiting:
					c.apply(c, P(&c.endpoint).Overdue())
				case !expired || c.phase == open: // later phases set a deadline only to wake this goroutine
					c.lose(c, lostError(err), false)
				}
			})
			return
		}
		c.consume(b.B)
		b.Free()
	}
}

// consume hands data, which it changes, to the endpoint, and messages to the peer. It waits during a pause.
func (c *StreamConn[E, P]) consume(data []byte) {
	e := P(&c.endpoint)
	var ph phase
	for listens := true; ; {
		if len(data) > 0 {
			ph, listens = c.await()
		}
		if !listens {
			return
		}
		var found transport.Found
		var message []byte
		switch found, message, data = e.Next(data); {
		case found == transport.FoundNothing:
			if s := e.Rest(); s.Write != nil {
				c.locked(func() { c.apply(c, s) })
			}
			return
		case found == transport.FoundControl:
			c.locked(func() {
				c.apply(c, e.Control())
				listens = c.listens()
			})
		case ph != awaiting:
			c.receive(message)
		}
	}
}

// await waits for the end of a pause.
func (c *StreamConn[E, P]) await() (ph phase, listens bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.pausing() {
		c.apply(c, P(&c.endpoint).Rest())
		if c.resume == nil {
			c.resume = make(chan struct{})
		}
		resume := c.resume
		c.mu.Unlock()
		<-resume
		c.mu.Lock()
	}
	return c.phase, c.listens()
}

func (c *StreamConn[E, P]) Pause(pause bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pause(pause); !pause {
		c.wakeReader()
	}
}

// wakeReader ends a pause for the goroutine that reads.
func (c *StreamConn[E, P]) wakeReader() {
	if c.resume != nil {
		close(c.resume)
		c.resume = nil
	}
}

func (c *StreamConn[E, P]) Write(frames [][]byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(c, frames, maxQueued)
}

func (c *StreamConn[E, P]) Close(d protocol.Disconnect, frames [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close(c, d, frames)
}

func (c *StreamConn[E, P]) tryWrite(frames [][]byte) (int, error) { return c.stream.TryWrite(frames) }

func (c *StreamConn[E, P]) enqueue(p []byte) { c.out.B = append(c.out.B, p...) }

func (c *StreamConn[E, P]) congested() {
	c.flushes.Add(1)
	go c.flush()
}

// flush writes out until it is empty. No other goroutine writes meanwhile.
func (c *StreamConn[E, P]) flush() {
	defer c.flushes.Done()
	for b := c.takeQueued(); b != nil; b = c.takeQueued() {
		err := c.stream.Write(b.B, P(&c.endpoint).Timeouts().Write)
		b.Free()
		if err != nil {
			c.locked(func() { c.lose(c, WriteError(err), !errors.Is(err, os.ErrDeadlineExceeded)) })
			return
		}
	}
}

// takeQueued returns the bytes that flush writes next; nil: the flush is over.
func (c *StreamConn[E, P]) takeQueued() (b *netio.Buffer) {
	c.mu.Lock()
	if b = c.out; len(b.B) > 0 {
		c.out = netio.Get(0)
		c.mu.Unlock()
		return b
	}
	writable := c.flushed(c)
	c.mu.Unlock()
	if writable {
		c.writable()
	}
	return nil
}

func (c *StreamConn[E, P]) drained() {
	if c.phase == awaiting {
		c.stream.SetReadDeadline(time.Now().Add(P(&c.endpoint).Timeouts().Await))
	}
}

func (c *StreamConn[E, P]) ended() {
	switch {
	case c.broken(): // read the bytes that have arrived, and wake up afterwards
		c.stream.SetReadDeadline(time.Now().Add(P(&c.endpoint).Timeouts().Write))
	case c.phase != awaiting:
		c.stream.SetReadDeadline(wakeUp)
	}
	c.wakeReader()
}

func (c *StreamConn[E, P]) after(d time.Duration) transport.Timer {
	return timer{time.AfterFunc(d, func() { c.locked(func() { c.ticked(c) }) })}
}

type timer struct{ t *time.Timer }

func (t timer) Stop() { t.t.Stop() }

// finish ends the connection, on the goroutine that reads, when it has read everything.
func (c *StreamConn[E, P]) finish() {
	c.linger()
	c.locked(func() {
		if c.phase == gone && c.out != nil {
			c.stream.Abort() // makes the flush fail
		}
	})
	c.flushes.Wait()
	P(&c.endpoint).Release()
	var dropUnsent bool
	c.locked(func() {
		x := c.getExtra()
		stop(&x.tick)
		dropUnsent, c.phase = x.dropUnsent, closed
		c.out.Free()
	})
	if dropUnsent {
		c.stream.Abort()
	} else {
		c.stream.Close()
	}
	c.notifyClosed()
}

// linger, after EndLinger, tells the peer, and discards received bytes until the client ends the connection.
func (c *StreamConn[E, P]) linger() {
	lingers := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.phase == lingering
	}
	if !lingers() {
		return
	}
	c.notifyClosed()
	c.flushes.Wait()
	c.stream.SetReadDeadline(time.Now().Add(P(&c.endpoint).Timeouts().Close))
	c.stream.CloseWrite()
	for lingers() {
		b, err := c.stream.Read()
		if err != nil {
			return
		}
		b.Free()
	}
}
