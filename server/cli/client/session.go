package client

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/wire"
)

// session handles the messages of one connection. It belongs to Run.
type session struct {
	*Client
	conn        *wire.Conn
	codec       codec.ClientCodec
	up          func()
	subscribing map[uint32]string // channels by the IDs of commands that wait for replies
	tracking    map[uint32]string // the same of commands that track keys
	connected   bool
	pong        bool
	ping        time.Duration // between pings; 0 for none
}

// receive handles the replies of one frame.
func (s *session) receive(frame []byte) error {
	frame = bytes.Clone(frame) // replies refer to it, and others keep them
	for len(frame) > 0 {
		message := wire.FirstMessage(protocol.JSON, frame)
		frame = frame[len(message):]
		reply := new(protocol.Reply)
		if _, err := s.codec.DecodeReply(message, reply); err != nil {
			return fmt.Errorf("the server sends what is not a reply: %w", err)
		}
		if err := s.reply(reply); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) reply(r *protocol.Reply) error {
	switch {
	case r.Push != nil:
		return s.push(r.Push)
	case r.ID == 0:
		return s.pinged()
	case !s.connected:
		return s.accepted(r)
	}
	if name, ok := s.subscribing[r.ID]; ok {
		delete(s.subscribing, r.ID)
		return s.subscribed(name, r)
	}
	if name, ok := s.tracking[r.ID]; ok {
		delete(s.tracking, r.ID)
		return s.tracked(name, r)
	}
	s.answered(r)
	return nil
}

func (s *session) pinged() error {
	s.expect()
	if s.pong {
		if err := s.conn.Send(&protocol.Command{}); err != nil {
			return err
		}
	}
	return s.renew()
}

// expect puts off the deadline of the next ping.
func (s *session) expect() {
	var within time.Duration
	if s.ping > 0 {
		within = s.ping + graceOfPing
	}
	s.conn.Expect(within)
}

// accepted handles the reply to the connect command.
func (s *session) accepted(r *protocol.Reply) error {
	if r.Error != nil {
		return refused("connect", r.Error)
	}
	if r.Connect == nil {
		return fatal{errors.New("connect: the reply has no result")}
	}
	s.connected, s.pong, s.ping = true, r.Connect.Pong, time.Duration(r.Connect.Ping)*time.Second
	s.expect()
	s.up()
	if err := s.handle(Event{Kind: Connected}); err != nil {
		return err
	}
	s.online(s.conn)
	return nil
}

// handle tells of an event. An error of the handler ends the client.
func (s *session) handle(e Event) error {
	if err := s.cfg.Handle(e); err != nil {
		return fatal{err}
	}
	return nil
}

// subscribed handles the reply to a subscribe command.
func (s *session) subscribed(name string, r *protocol.Reply) error {
	sub := s.subs[name]
	switch {
	case sub == nil:
		return nil
	case r.Error != nil && sub.Type.isMap() && r.Error.Code == protocol.ErrorUnrecoverablePosition.Code:
		return s.again(sub)
	case r.Error != nil:
		return refused(fmt.Sprintf("subscribe to %q", name), r.Error)
	case r.Subscribe == nil:
		return fatal{fmt.Errorf("subscribe to %q: the reply has no result", name)}
	}
	res := r.Subscribe
	switch {
	case sub.Type.isMap():
		return s.caughtUp(sub, res)
	case sub.Type == SharedPoll:
		return s.polls(sub, res)
	}
	sub.whole.negotiated(res.Delta)
	missed := res.Publications
	res.Publications = nil
	sub.recoverable, sub.at.Epoch = res.Recoverable, res.Epoch
	if err := s.handle(Event{Kind: Subscribed, Channel: name, Result: res}); err != nil {
		return err
	}
	for _, pub := range missed {
		if err := s.published(sub, pub); err != nil {
			return err
		}
	}
	sub.at.Offset = res.Offset
	return nil
}

func (s *session) published(sub *subscription, pub *protocol.Publication) error {
	if err := sub.whole.restore(pub); err != nil {
		return fmt.Errorf("%s: %w", sub.Name, err) // what is missing comes with the next connection
	}
	if err := s.handle(Event{Kind: Published, Channel: sub.Name, Publication: pub}); err != nil {
		return err
	}
	if pub.Offset > 0 {
		sub.at.Offset = pub.Offset
	}
	return nil
}

func (s *session) push(p *protocol.Push) error {
	sub := s.subs[p.Channel]
	switch {
	case p.Disconnect != nil && p.Disconnect.Terminal():
		return fatal{*p.Disconnect}
	case p.Disconnect != nil:
		return *p.Disconnect
	case p.Message != nil:
		return s.handle(Event{Kind: Sent, Data: p.Message.Data})
	case sub == nil: // of a channel that the server has the client in
		return nil
	case p.Pub != nil && sub.Type.isMap():
		return s.changed(sub, p.Pub)
	case p.Pub != nil && sub.Type == SharedPoll:
		return s.polled(sub, p.Pub)
	case p.Pub != nil:
		return s.published(sub, p.Pub)
	case p.Join != nil:
		return s.handle(Event{Kind: Joined, Channel: p.Channel, Info: p.Join.Info})
	case p.Leave != nil:
		return s.handle(Event{Kind: Left, Channel: p.Channel, Info: p.Leave.Info})
	case p.Unsubscribe != nil:
		return s.unsubscribed(sub, p.Unsubscribe)
	}
	return nil
}

// resubscribe is the least code after which clients subscribe again.
const resubscribe = 2500

// unsubscribed handles the end of a subscription by the server.
func (s *session) unsubscribed(sub *subscription, u *protocol.Unsubscribe) error {
	reason := fmt.Errorf("unsubscribed from %q by the server: %d %s", sub.Name, u.Code, u.Reason)
	if u.Code < resubscribe {
		delete(s.subs, sub.Name)
		if err := s.handle(Event{Kind: Unsubscribed, Channel: sub.Name, Err: reason}); err != nil {
			return err
		}
		if len(s.subs) == 0 {
			return fatal{reason}
		}
		return nil
	}
	if err := s.handle(Event{Kind: Unsubscribed, Channel: sub.Name, Err: reason}); err != nil {
		return err
	}
	return s.ask(sub)
}

// ask sends a subscribe command.
func (s *session) ask(sub *subscription) error {
	cmd, err := s.subscribe(sub)
	if err != nil {
		return fatal{err}
	}
	s.subscribing[cmd.ID] = sub.Name
	return s.conn.Send(cmd)
}
