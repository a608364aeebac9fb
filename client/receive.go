package client

import (
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client/internal/eventqueue"
	"github.com/gyrohq/gyro/internal/wsclient"
	"github.com/gyrohq/gyro/protocol"
)

const (
	// grace is how long the client reads nothing because of an iterator that takes nothing.
	grace = time.Second
	// reach is how many times Options.Buffer events may wait in an iterator while calls, which need the connection, are
	// under way.
	reach = 16
)

// compressible reports whether the application wants compressed messages, and the connection can have them.
func (l *link) compressible() bool {
	_, ok := l.conn.(*wsclient.Conn)
	return ok && l.options.Dictionary
}

func (l *link) receive(data []byte) error {
	if l.book == nil {
		return l.frame(data)
	}
	return l.book.Open(data, l.options.MessageLimit, l.frame)
}

func (l *link) frame(data []byte) error {
	l.mu.Lock()
	l.alive()
	err := l.messages(data)
	l.flush()
	full := l.crowd.Take()
	for _, q := range full {
		if q.Excess(reach) {
			l.skip(q)
		}
	}
	if err != nil || len(full) == 0 || len(l.answers) > 0 {
		l.mu.Unlock()
		return err
	}
	needed := make(chan struct{})
	l.paused = needed
	l.mu.Unlock()
	if err := l.wait(full, needed); err != nil {
		return err
	}
	l.mu.Lock()
	l.resume()
	l.mu.Unlock()
	return nil
}

// resume ends the pause that iterators have caused.
func (l *link) resume() {
	if l.paused != nil {
		close(l.paused)
		l.paused = nil
		l.heard = l.now() // nothing could be heard meanwhile
	}
}

func (l *link) alive() {
	l.heard = l.now()
	if l.trying {
		l.trying = false
		if l.dialer.Worked != nil {
			l.dialer.Worked()
		}
	}
	if l.probing != nil {
		l.probing.stop()
		l.probing = nil
	}
}

// wait waits until each iterator has room or has taken nothing for grace, or a command needs the connection.
func (l *link) wait(full []*eventqueue.Queue[Event], needed <-chan struct{}) error {
	life, tick := l.life(), time.NewTicker(grace)
	defer tick.Stop()
	handed := make(map[*eventqueue.Queue[Event]]uint64, len(full))
	for _, q := range full {
		handed[q] = q.Handed()
	}
	for len(full) > 0 {
		room := full[0].Room()
		if room == nil {
			full = full[1:]
			continue
		}
		select {
		case <-room:
		case <-needed:
			return nil
		case <-life.Done():
			return life.Err()
		case <-tick.C:
			for _, q := range full {
				if q.Handed() == handed[q] {
					l.skip(q)
				}
				handed[q] = q.Handed()
			}
		}
	}
	return nil
}

func (l *link) skip(q *eventqueue.Queue[Event]) {
	if q.Skip() {
		l.options.Logger.Warn("nobody takes the events of an iterator, which is full: further ones are left out, and a gap tells of them",
			"channel", q.Name, "key", "Options.Buffer", "limit", l.options.Buffer)
	}
}

func (l *link) messages(data []byte) error {
	for len(data) > 0 && !l.dropped {
		var r protocol.Reply
		rest, err := l.codec.DecodeReply(data, &r)
		if err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
		data = rest
		l.message(&r)
	}
	return nil
}

func (l *link) message(r *protocol.Reply) {
	switch {
	case r.ID != 0:
		l.answer(r.ID, r, nil)
	case r.Push != nil:
		l.push(r.Push)
	case l.pong: // r is a ping
		l.out = slices.Insert(l.out, 0, new(protocol.Command))
	}
}

func (l *link) push(p *protocol.Push) {
	switch {
	case p.Message != nil:
		l.queues.Push(MessageEvent{p.Message.Data})
		return
	case p.Disconnect != nil:
		l.gone(l.sentAway(p.Disconnect.Code, p.Disconnect.Reason))
		return
	}
	channel := p.Channel
	if p.ID != 0 {
		channel = l.numbers[p.ID]
	}
	if s := l.subscription(channel); s != nil && s.sent {
		s.push(l, p)
		return
	}
	l.serverPush(channel, p)
}
