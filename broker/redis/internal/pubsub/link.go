package pubsub

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// batchSize is how many messages the reader gathers at most for the queue.
const batchSize = 256

// link is the present connection of a Conn. It ends with its first error.
type link struct {
	conn      net.Conn
	table     *table
	heartbeat *heartbeat
	queue     *queue
	sharded   bool
	timeout   time.Duration
	max       int
	service   string
	stats     *counters

	wake    chan struct{} // there is something to write
	failed  chan struct{} // closed by fail
	drained chan struct{} // has an element when nothing more is read
	once    sync.Once
	err     error // the reason, once failed is closed

	reader *resp.Reader // used by the queue's reader alone
	any    atomic.Int64 // when something arrived
	idle   atomic.Int64 // nanoseconds that the reader waited for the network
	waits  atomic.Int64 // since when the reader waits; 0: it does not
}

// counters of a Conn.
type counters struct{ messages, reconnects atomic.Uint64 }

// fail ends the link: all calls that wait for it get the error. The Conn closes the connection.
func (l *link) fail(err error) {
	l.once.Do(func() {
		l.err = err
		l.heartbeat.close(l, err)
		l.table.close(l, err)
		close(l.failed)
	})
}

// drainTime is how long a link that has failed is still read, at most. The server does not send these messages again.
const drainTime = 100 * time.Millisecond

// drain waits until everything that the link has received is read, if the handler keeps pace.
func (l *link) drain() {
	if l.conn.SetReadDeadline(time.Now().Add(drainTime/2)) != nil {
		return
	}
	select {
	case <-l.drained:
	case <-time.After(drainTime):
	}
}

// write sends commands as they come. Commands that come while it writes, or that other
// goroutines are about to add when it wakes up, are sent together.
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

// source is the connection for resp.Reader. It measures how long reads wait.
type source struct{ *link }

func (s source) Read(p []byte) (int, error) {
	begin := s.heartbeat.clock()
	s.waits.Store(begin)
	n, err := s.conn.Read(p)
	end := s.heartbeat.clock()
	s.waits.Store(0)
	s.idle.Add(end - begin)
	if n > 0 {
		s.any.Store(end)
	}
	return n, err
}

// saturated reports whether the reader hardly waited for the network in the last period: then
// messages may gather at the server.
func (l *link) saturated(period time.Duration) bool {
	idle := l.idle.Swap(0)
	if begin := l.waits.Load(); begin != 0 {
		idle += l.heartbeat.clock() - begin
	}
	return idle < int64(period/16)
}

// read takes the messages of the server until the link fails or the reader is relieved. Before it waits for the network,
// everything received goes to the queue.
func (l *link) read(t *token) {
	batch := make([]message, 0, batchSize)
	var f resp.Frame
	for {
		found, err := l.reader.Buffered(&f)
		if found {
			var m message
			m, err = l.frame(&f)
			if m.channel != nil || m.note != nil {
				batch = append(batch, m)
			}
		}
		if n := len(batch); n == batchSize || n > 0 && (!found || err != nil) {
			if !l.bring(t, batch) {
				return
			}
			clear(batch)
			batch = batch[:0]
		}
		if err == nil && !found {
			err = l.reader.Fill()
		}
		if err != nil {
			l.fail(err)
			signal(l.drained)
			return
		}
	}
}

// bring counts messages and hands them to the queue; see queue.bring.
func (l *link) bring(t *token, batch []message) bool {
	at, n := l.any.Load(), uint64(0)
	for i := range batch {
		if batch[i].note == nil {
			n++
		}
	}
	if n > 0 {
		l.stats.messages.Add(n)
		l.heartbeat.sign.Store(at)
	}
	return l.queue.bring(t, batch, l.heartbeat.start.Add(time.Duration(at)))
}

// frame handles one value. If it is not for the handler, the message is zero.
func (l *link) frame(f *resp.Frame) (m message, err error) {
	switch {
	case f.Kind == '>' || f.Kind == '*':
		return l.event(f)
	case f.Kind == '-' || f.Kind == '!':
		return m, l.table.reject(l, l.sharded, f.Text)
	case f.Kind == '+' && string(f.Text) == "PONG":
		return m, l.table.pong(l)
	}
	return m, fmt.Errorf("unexpected answer of type %q", f.Kind)
}

// event handles a message or a confirmation.
func (l *link) event(f *resp.Frame) (m message, err error) {
	switch string(f.Items[0]) {
	case "message", "smessage":
		if f.Len == 3 && f.Items[1] != nil {
			return l.message(f.Items[1], f.Items[2]), nil
		}
	case "subscribe", "ssubscribe":
		if f.Len == 3 {
			return m, l.table.confirm(l, subscribe, f.Items[1])
		}
	case "unsubscribe", "sunsubscribe":
		if f.Len == 3 {
			return m, l.table.confirm(l, unsubscribe, f.Items[1])
		}
	case "pong": // in RESP2
		return m, l.table.pong(l)
	case "invalidate":
		return m, nil
	}
	return m, fmt.Errorf("unexpected event %.50q of %d elements", f.Items[0], f.Len)
}

// message makes a message for the handler, or a note of a canary.
func (l *link) message(channel, payload []byte) message {
	if string(channel) == l.service {
		number, at, ok := l.heartbeat.parse(payload)
		if !ok {
			return message{}
		}
		l.heartbeat.arrived(l, number)
		return message{note: func() { l.heartbeat.delivered(l, number, at) }}
	}
	return message{channel: channel, payload: payload, memory: l.reader.Hold()}
}
