package pubsub

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

const batchSize = 256

// connection is the present socket of a Conn. It ends with its first error.
type connection struct {
	conn      net.Conn
	table     *table
	heartbeat *heartbeat
	queue     *queue
	sharded   bool
	timeout   time.Duration
	max       int
	canaries  string // their channel
	stats     *counters

	wake    chan struct{} // there is something to write
	failed  chan struct{} // closed by fail
	drained chan struct{} // has an element when nothing more is read
	once    sync.Once
	err     error // the reason, once failed is closed

	reader       *resp.Reader // used by the queue's reader alone
	lastReceived atomic.Int64 // when something arrived
	waited       atomic.Int64 // nanoseconds that the reader waited for the network
	waitingSince atomic.Int64 // since when the reader waits; 0: it does not
}

type counters struct{ messages, reconnects atomic.Uint64 }

// fail gives all calls that wait the error. The Conn closes the socket.
func (cn *connection) fail(err error) {
	cn.once.Do(func() {
		cn.err = err
		cn.heartbeat.close(cn, err)
		cn.table.close(cn, err)
		close(cn.failed)
	})
}

// drainTime is how long a connection that has failed is read. The server does not send these messages again.
const drainTime = 100 * time.Millisecond

func (cn *connection) drain() {
	if cn.conn.SetReadDeadline(time.Now().Add(drainTime/2)) != nil {
		return
	}
	select {
	case <-cn.drained:
	case <-time.After(drainTime):
	}
}

// write sends commands together that come while it writes, or that other goroutines are about to add when it wakes up.
func (cn *connection) write() {
	var buf []byte
	for {
		buf = cn.table.commands(cn, buf[:0])
		if len(buf) == 0 {
			select {
			case <-cn.wake:
				runtime.Gosched()
				continue
			case <-cn.failed:
				return
			}
		}
		err := cn.conn.SetWriteDeadline(time.Now().Add(cn.timeout))
		if err == nil {
			_, err = cn.conn.Write(buf)
		}
		if err != nil {
			cn.fail(fmt.Errorf("write: %w", err))
			return
		}
		if cap(buf) > 2*maxWrite {
			buf = nil
		}
	}
}

// source measures how long reads wait.
type source struct{ *connection }

func (s source) Read(p []byte) (int, error) {
	begin := s.heartbeat.clock()
	s.waitingSince.Store(begin)
	n, err := s.conn.Read(p)
	end := s.heartbeat.clock()
	s.waitingSince.Store(0)
	s.waited.Add(end - begin)
	if n > 0 {
		s.lastReceived.Store(end)
	}
	return n, err
}

// saturated: the reader hardly waited for the network in the last period, so messages may gather at the server.
func (cn *connection) saturated(period time.Duration) bool {
	waited := cn.waited.Swap(0)
	if begin := cn.waitingSince.Load(); begin != 0 {
		waited += cn.heartbeat.clock() - begin
	}
	return waited < int64(period/16)
}

// read ends when the connection fails or the reader is relieved. Before it waits for the network, everything received
// goes to the queue.
func (cn *connection) read(reader *readerID) {
	batch := make([]message, 0, batchSize)
	var f resp.Frame
	for {
		found, err := cn.reader.Buffered(&f)
		if found {
			var m message
			m, err = cn.frame(&f)
			if m.channel != nil || m.note != nil {
				batch = append(batch, m)
			}
		}
		if n := len(batch); n == batchSize || n > 0 && (!found || err != nil) {
			if !cn.enqueue(reader, batch) {
				return
			}
			clear(batch)
			batch = batch[:0]
		}
		if err == nil && !found {
			err = cn.reader.Fill()
		}
		if err != nil {
			cn.fail(err)
			enginekit.Signal(cn.drained)
			return
		}
	}
}

func (cn *connection) enqueue(reader *readerID, batch []message) bool {
	at, n := cn.lastReceived.Load(), uint64(0)
	for i := range batch {
		if batch[i].note == nil {
			n++
		}
	}
	if n > 0 {
		cn.stats.messages.Add(n)
		cn.heartbeat.lastMessage.Store(at)
	}
	return cn.queue.put(reader, batch, cn.heartbeat.start.Add(time.Duration(at)))
}

func (cn *connection) frame(f *resp.Frame) (m message, err error) {
	switch {
	case f.Kind == '>' || f.Kind == '*':
		return cn.event(f)
	case f.Kind == '-' || f.Kind == '!':
		return m, cn.table.reject(cn, cn.sharded, f.Text)
	case f.Kind == '+' && string(f.Text) == "PONG":
		return m, cn.table.pong(cn)
	}
	return m, fmt.Errorf("unexpected answer of type %q", f.Kind)
}

func (cn *connection) event(f *resp.Frame) (m message, err error) {
	switch string(f.Items[0]) {
	case "message", "smessage":
		if f.Len == 3 && f.Items[1] != nil {
			return cn.message(f.Items[1], f.Items[2]), nil
		}
	case "subscribe", "ssubscribe":
		if f.Len == 3 {
			return m, cn.table.confirm(cn, subscribe, f.Items[1])
		}
	case "unsubscribe", "sunsubscribe":
		if f.Len == 3 {
			return m, cn.table.confirm(cn, unsubscribe, f.Items[1])
		}
	case "pong": // in RESP2
		return m, cn.table.pong(cn)
	case "invalidate":
		return m, nil
	}
	return m, fmt.Errorf("unexpected event %.50q of %d elements", f.Items[0], f.Len)
}

func (cn *connection) message(channel, payload []byte) message {
	if string(channel) == cn.canaries {
		number, at, ok := cn.heartbeat.parse(payload)
		if !ok {
			return message{}
		}
		cn.heartbeat.arrived(cn, number)
		return message{note: func() { cn.heartbeat.delivered(cn, number, at) }}
	}
	return message{channel: channel, payload: payload, memory: cn.reader.Retain()}
}
