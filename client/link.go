package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client/internal/dictionary"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

// maxFrame is the largest frame of several commands, in bytes.
const maxFrame = 60_000

// link is one connection. The client's lock protects it.
type link struct {
	*Client
	ctx       context.Context // ends with it; nil: no goroutine needs it
	cancel    context.CancelFunc
	conn      Conn
	book      *dictionary.Dictionary // of messages from the next frame on; the goroutine that reads has it
	connected bool
	pong      bool
	silence   time.Duration // after which it counts as lost; 0 for never
	heard     time.Time
	paused    chan struct{} // nothing is read while iterators take events; closed if a command needs the connection. nil: it is read
	probing   *timer
	dropped   bool
	answers   map[uint32]*call
	leaving   map[string]bool  // channels of unsubscribe commands without a reply
	numbers   map[int64]string // channels by their numbers
	timers    []*timer
	out       []*protocol.Command
	frames    [][]byte // to be written
	waiting   int      // their bytes
	writing   bool     // a goroutine writes
}

func (l *link) greet(hello *protocol.ConnectRequest) {
	l.ask(&protocol.Command{Connect: hello}, func() { l.gone(ending{failure: *ErrTimeout}) }, l.accepted)
	for _, s := range l.subs.All() {
		s.failed = 0
		s.start()
	}
	l.flush()
}

// timer calls a function under the lock, if the connection is still there.
type timer struct {
	*time.Timer
	link *link
}

// life ends with the connection. The lock is not held.
func (l *link) life() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
		if l.dropped {
			l.cancel()
		}
	}
	return l.ctx
}

func (l *link) after(d time.Duration, f func()) *timer {
	t := &timer{link: l}
	l.timers = append(l.timers, t)
	t.Timer = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.stop() {
			f()
			l.flush()
		}
	})
	return t
}

// stop reports whether the timer had not ended before.
func (t *timer) stop() bool {
	t.Stop()
	at := slices.Index(t.link.timers, t)
	if at < 0 {
		return false
	}
	t.link.timers = slices.Delete(t.link.timers, at, at+1)
	return true
}

// ask queues a command of the client itself. then gets its reply, under the lock; without one in time, late is called.
// If the connection ends, neither is.
func (l *link) ask(cmd *protocol.Command, late func(), then func(*protocol.Reply)) {
	t := l.after(l.options.Timeout, late)
	l.send(&call{cmd: cmd, done: func(r *protocol.Reply, err error) {
		t.stop()
		if r == nil && err != nil && !l.dropped { // it cannot be sent
			r = &protocol.Reply{Error: &protocol.Error{Code: protocol.ErrorBadRequest.Code, Message: err.Error()}}
		}
		if r != nil {
			then(r)
		}
	}})
}

// send queues the command of a call. A message has no ID and no reply.
func (l *link) send(c *call) {
	l.out = append(l.out, c.cmd)
	if c.started != nil {
		c.started()
	}
	if c.cmd.Send != nil {
		c.done(new(protocol.Reply), nil)
		return
	}
	c.cmd.ID = l.nextID()
	if l.answers == nil {
		l.answers = make(map[uint32]*call)
	}
	l.answers[c.cmd.ID] = c
	l.resume()
}

// flush does not wait for the network.
func (l *link) flush() {
	if len(l.out) == 0 || l.dropped {
		return
	}
	out := l.out
	l.out = nil
	var frame []byte
	for _, cmd := range out {
		at := len(frame)
		if at > 0 && l.options.Encoding == protocol.JSON {
			frame = append(frame, '\n')
		}
		next, err := l.codec.AppendCommand(frame, cmd)
		if err != nil {
			frame = frame[:at]
			l.answer(cmd.ID, nil, err)
			continue
		}
		if at > 0 && len(next) > maxFrame {
			l.enqueue(next[:at])
			next = slices.Clone(next[at:])
			if l.options.Encoding == protocol.JSON {
				next = next[1:]
			}
		}
		frame = next
	}
	l.enqueue(frame)
	l.flush() // the answers above may have queued commands
}

// enqueue starts the goroutine that writes if there is none.
func (l *link) enqueue(frame []byte) {
	if len(frame) == 0 || l.dropped {
		return
	}
	l.frames, l.waiting = append(l.frames, frame), l.waiting+len(frame)
	switch {
	case l.waiting > l.options.MessageLimit:
		l.gone(ending{reason: TransportClosed, cause: fmt.Errorf("the server does not read: more than %d bytes wait for it", l.options.MessageLimit)})
	case !l.writing:
		l.writing = true
		go l.write()
	}
}

func (l *link) write() {
	for {
		l.mu.Lock()
		frames := l.frames
		l.frames, l.waiting = nil, 0
		l.writing = len(frames) > 0 && !l.dropped
		more := l.writing
		l.mu.Unlock()
		if !more {
			return
		}
		for _, frame := range frames {
			if l.conn.Write(frame) != nil {
				return // Read ends as well
			}
		}
	}
}

func (l *link) answer(id uint32, r *protocol.Reply, err error) {
	if c := l.answers[id]; c != nil {
		delete(l.answers, id)
		if len(l.answers) == 0 {
			l.answers = nil // a waiting connection should not keep the memory
		}
		c.done(r, err)
	}
}

// number notes the number of a channel, unless it is 0.
func (l *link) number(channel string, id int64) {
	if id == 0 {
		return
	}
	if l.numbers == nil {
		l.numbers = make(map[int64]string)
	}
	l.numbers[id] = channel
}

func (l *link) unnumber(channel string) {
	maps.DeleteFunc(l.numbers, func(_ int64, ch string) bool { return ch == channel })
}

func (l *link) cut(politely bool) {
	l.dropped = true
	l.Client.link = nil
	for _, t := range l.timers {
		t.Stop()
	}
	l.timers = nil
	if l.cancel != nil {
		l.cancel()
	}
	conn := l.conn
	go func() { // a write may be under way
		if politely {
			conn.Close(1000, "")
		} else {
			conn.Cut()
		}
	}()
}

func (l *link) forget(err error) {
	answers := l.answers
	l.answers = nil
	ids := make([]uint32, 0, len(answers))
	for id := range answers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		answers[id].done(nil, err)
	}
}

// ended is called with the error of Read.
func (l *link) ended(err error) {
	var closed *wsclient.CloseError
	end := ending{reason: TransportClosed, cause: err}
	switch {
	case errors.Is(err, errProtocol), l.books.Wrong(err):
		end.reason, end.last = BadProtocol, true
	case errors.Is(err, wsclient.ErrTooBig):
		end.reason, end.last = MessageSizeLimit, true
	case !errors.As(err, &closed) || closed.Code < 3000 && closed.Code != 1009:
	case closed.Code == 1009:
		end.reason, end.last = MessageSizeLimit, true
	default:
		end = l.sentAway(closed.Code, closed.Reason)
	}
	l.gone(end)
}

func (l *link) sentAway(code uint32, reason string) ending {
	if code == protocol.DisconnectStateInvalidated.Code {
		l.invalidate()
	}
	d := protocol.Disconnect{Code: code, Reason: reason}
	return ending{reason: Reason{code, reason}, last: d.Terminal(), cause: d}
}

// invalidate drops tokens and positions, which the server does not accept any more.
func (l *link) invalidate() {
	if l.options.GetToken != nil {
		l.token = ""
	}
	for _, s := range l.subs.All() {
		s.invalidate()
	}
	for _, s := range l.server {
		s.invalidate()
	}
}

func (l *link) accepted(r *protocol.Reply) {
	switch {
	case r.Error != nil:
		l.refused(r.Error)
		return
	case r.Connect == nil:
		l.gone(ending{reason: BadProtocol, cause: noResult("connect"), last: true})
		return
	}
	res := r.Connect
	if l.compressible() {
		var err error
		if l.book, err = l.books.Accept(res, l.options.MessageLimit); err != nil {
			l.gone(ending{reason: BadProtocol, cause: err, last: true})
			return
		}
	}
	l.connected, l.pong, l.heard = true, res.Pong, l.now()
	l.enter(Connected, Reason{})
	l.queues.Push(ConnectedEvent{Client: res.Client, Version: res.Version, Data: res.Data, Transport: l.dialer.Name()})
	if res.Ping > 0 {
		l.silence = time.Duration(res.Ping)*time.Second + l.options.PingWait
		l.listen(l.silence)
	}
	if res.Expires {
		l.refreshAfter(seconds(res.TTL))
	}
	l.serverSubscribed(res.Subs)
	waiting := l.calls
	l.calls = nil
	for _, c := range waiting {
		l.send(c)
	}
}

func (l *link) refused(e *protocol.Error) {
	end := ending{failure: *e, politely: true}
	switch {
	case e.Code == protocol.ErrorTokenExpired.Code && l.options.GetToken == nil:
		end = unauthorized
	case e.Code == protocol.ErrorTokenExpired.Code:
		l.token = ""
	case !temporary(e):
		end.reason, end.last = Reason{e.Code, e.Message}, true
	}
	l.gone(end)
}

func temporary(e *protocol.Error) bool { return e.Temporary || e.Code < 100 }

// listen ends the connection if the server is silent for too long.
func (l *link) listen(d time.Duration) {
	l.after(d, func() {
		left := l.silence - l.now().Sub(l.heard)
		if l.paused != nil {
			left = l.silence // it is the client that does not listen
		}
		if left > 0 {
			l.listen(left)
			return
		}
		l.gone(ending{reason: NoPing, cause: fmt.Errorf("the server was silent for %s", l.silence)})
	})
}

// probeTime bounds the wait for an answer to probe.
const probeTime = 3 * time.Second

// probe asks the server to end a subscription that there is not: it must answer.
func (l *link) probe() {
	if l.probing != nil {
		return
	}
	channel := "-"
	if l.subscription(channel) != nil {
		channel = "--"
	}
	l.probing = l.after(probeTime, func() {
		l.hurry = true
		l.gone(ending{reason: NoPing, cause: fmt.Errorf("the server did not answer within %s", probeTime)})
	})
	l.send(&call{cmd: &protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: channel}}, done: func(*protocol.Reply, error) {}})
	l.flush()
}
