package pubsub

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/pubsub/resp"
)

// batchSize is how many messages the reader gathers at most for the queue.
const batchSize = 256

// link is one connection of a Conn's life. It ends with its first error.
type link struct {
	conn    net.Conn
	table   *table
	pulse   *pulse
	queue   *queue
	sharded bool
	timeout time.Duration
	max     int
	service string
	stats   *counters

	wake   chan struct{} // there is something to write
	failed chan struct{} // closed by fail
	once   sync.Once
	err    error // why, once failed is closed

	batch []message // received, not in the queue yet
	any   atomic.Int64
}

// counters of a Conn.
type counters struct{ messages, bytes, reconnects, canaries atomic.Uint64 }

// fail ends the link: everybody who waits for it gets the error.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		l.pulse.close(l, err)
		l.table.close(l, err)
		l.conn.Close()
		close(l.failed)
	})
}

// write sends commands as they come. Those that come while it writes, or that are
// about to come when it wakes up, gather.
func (l *link) write() {
	var buf []byte
	for {
		buf = l.table.commands(l, buf[:0])
		if len(buf) == 0 {
			select {
			case <-l.wake:
				runtime.Gosched()
				continue
			case <-l.failed:
				return
			}
		}
		err := l.conn.SetWriteDeadline(time.Now().Add(l.timeout))
		if err == nil {
			_, err = l.conn.Write(buf)
		}
		if err != nil {
			l.fail(fmt.Errorf("write: %w", err))
			return
		}
		if cap(buf) > 2*maxWrite {
			buf = nil
		}
	}
}

// source is the connection as the reader of values sees it: before it waits for the
// network, everything received so far goes to the queue.
type source struct{ *link }

func (s source) Read(p []byte) (int, error) {
	s.flush()
	n, err := s.conn.Read(p)
	if n > 0 {
		s.any.Store(s.pulse.clock())
		s.stats.bytes.Add(uint64(n))
	}
	return n, err
}

// flush hands the received messages over.
func (l *link) flush() {
	if len(l.batch) == 0 {
		return
	}
	l.stats.messages.Add(uint64(len(l.batch)))
	l.queue.push(l.batch)
	clear(l.batch)
	l.batch = l.batch[:0]
}

// read takes what the server sends until the link fails.
func (l *link) read() {
	reader := resp.NewReader(source{l}, chunkSize, l.max)
	l.batch = make([]message, 0, batchSize)
	var f resp.Frame
	for {
		err := reader.Next(&f)
		if err == nil {
			err = l.frame(&f)
		}
		if err != nil {
			l.flush() // what came before counts
			l.fail(err)
			return
		}
		if len(l.batch) == batchSize {
			l.flush()
		}
	}
}

// frame takes one value.
func (l *link) frame(f *resp.Frame) error {
	switch {
	case f.Kind == '>' || f.Kind == '*':
		return l.event(f)
	case f.Kind == '-' || f.Kind == '!':
		return l.table.reject(l, l.sharded, f.Text)
	case f.Kind == '+' && string(f.Text) == "PONG":
		return l.table.pong(l)
	}
	return fmt.Errorf("unexpected answer of type %q", f.Kind)
}

// event takes a message or a confirmation.
func (l *link) event(f *resp.Frame) error {
	switch string(f.Items[0]) {
	case "message", "smessage":
		if f.Len == 3 {
			l.message(f.Items[1], f.Items[2])
			return nil
		}
	case "subscribe", "ssubscribe":
		if f.Len == 3 {
			return l.table.confirm(l, subscribe, f.Items[1])
		}
	case "unsubscribe", "sunsubscribe":
		if f.Len == 3 {
			return l.table.confirm(l, unsubscribe, f.Items[1])
		}
	case "pong": // in RESP2
		return l.table.pong(l)
	case "invalidate":
		return nil
	}
	return fmt.Errorf("unexpected event %.50q of %d elements", f.Items[0], f.Len)
}

func (l *link) message(channel, payload []byte) {
	if string(channel) == l.service {
		if number, at, ok := l.pulse.parse(payload); ok {
			l.pulse.arrived(l, number)
			l.stats.canaries.Add(1)
			l.flush()
			l.queue.note(func() { l.pulse.delivered(l, number, at) })
		}
		return
	}
	l.pulse.sign.Store(l.any.Load())
	l.batch = append(l.batch, message{channel: channel, payload: payload})
}
