package client

import (
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/client/internal/feed"
	"github.com/gyrohq/gyro/internal/socket"
	"github.com/gyrohq/gyro/protocol"
)

// heldUp is after how long a log line tells that nobody reads from an iterator.
const heldUp = 10 * time.Second

// compressible reports whether the application wants messages that are compressed, and the connection can have them.
func (l *link) compressible() bool {
	_, ok := l.conn.(*socket.Conn)
	return ok && l.options.Dictionary
}

// receive takes a frame as it was sent.
func (l *link) receive(data []byte) error {
	if l.book == nil {
		return l.frame(data)
	}
	return l.book.Open(data, l.options.MessageLimit, l.frame)
}

// frame takes the messages of a frame, and waits until the iterators have room for more.
func (l *link) frame(data []byte) error {
	l.mu.Lock()
	l.alive()
	err := l.messages(data)
	l.flush()
	full := l.crowd.Take()
	l.held = err == nil && len(full) > 0
	l.mu.Unlock()
	if err != nil || len(full) == 0 {
		return err
	}
	for _, f := range full {
		if err := l.wait(f); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.held, l.resumed = false, l.now()
	l.alive() // nothing could be heard meanwhile
	l.mu.Unlock()
	return nil
}

// alive notes that the connection works.
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

// wait waits until an iterator has room.
func (l *link) wait(f *feed.Feed[Event]) error {
	late := time.AfterFunc(heldUp, func() {
		l.options.Logger.Warn("an iterator holds the client up: nobody takes its events", "key", "Options.Buffer", "limit", l.options.Buffer)
	})
	defer late.Stop()
	life := l.life()
	for room := f.Room(); room != nil; room = f.Room() {
		select {
		case <-room:
		case <-life.Done():
			return life.Err()
		}
	}
	return nil
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
		l.feeds.Push(MessageEvent{p.Message.Data})
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
