package session

import (
	"time"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/protocol"
)

// unsubscribeWait bounds how long an unsubscribe waits for its subscribe.
const unsubscribeWait = 5 * time.Second

func (s *Session) handleUnsubscribe(id uint32, req *protocol.UnsubscribeRequest) effect.Effect {
	if req.Channel == "" {
		s.refuse(id, "", errNoChannel)
		return nil
	}
	b := s.subs.Get(req.Channel)
	switch {
	case b == nil:
		s.reply(protocol.Reply{ID: id, Unsubscribe: &protocol.UnsubscribeResult{}})
	case b.state == subLive, b.state.waits():
		s.inflight++
		return s.detach(b, protocol.UnsubscribeClient, id)
	default:
		s.inflight++
		w := b.setup
		w.unsubscribers = append(w.unsubscribers, id)
		if w.ended == nil {
			w.ended = &protocol.UnsubscribeClient
		}
		if w.unsubscribeBy == 0 {
			w.unsubscribeBy = s.env.Now() + int64(unsubscribeWait)
			s.deadlines.unsubscribe = beat.Earliest(s.deadlines.unsubscribe, w.unsubscribeBy)
			s.reschedule()
		}
	}
	return nil
}

// endAsAsked carries out an unsubscribe that came before the subscription was live.
func (s *Session) endAsAsked(b *Subscription) effect.Effect {
	ended, ids := *b.setup.ended, b.setup.unsubscribers
	b.setup.unsubscribers = nil
	if len(ids) == 0 {
		s.endWith(b, ended)
		return nil
	}
	for _, id := range ids[1:] {
		s.finish(id, nil, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
	return s.detach(b, ended, ids[0])
}

// ServerUnsubscribe tells the client in any case.
func (s *Session) ServerUnsubscribe(ch string, u protocol.Unsubscribe) {
	if s.state != stateConnected {
		return
	}
	b := s.subs.Get(ch)
	switch {
	case b == nil:
		s.pushUnsubscribe(ch, u)
	case b.state == subLive:
		s.env.Finish(b)
		if b.state == subLive {
			s.endWith(b, u)
		}
	case b.state.waits():
		s.endWith(b, u)
	default:
		b.setup.ended = &u
	}
}

// end does not tell the client.
func (s *Session) end(b *Subscription, u protocol.Unsubscribe) { s.run(s.detach(b, u, 0)) }

func (s *Session) endWith(b *Subscription, u protocol.Unsubscribe) {
	s.end(b, u)
	s.pushUnsubscribe(b.channel, u)
}

// endOrClose ends a subscription by u, or the whole connection by d if the server made it.
func (s *Session) endOrClose(b *Subscription, d protocol.Disconnect, u protocol.Unsubscribe) {
	if b.serverSide {
		s.Close(d)
		return
	}
	s.endWith(b, u)
}

func (s *Session) pushUnsubscribe(ch string, u protocol.Unsubscribe) {
	s.reply(protocol.Reply{Push: &protocol.Push{Channel: ch, Unsubscribe: &u}})
}

// detach takes a subscription out of the hub and the session. It returns the effect that ends it at the engines and
// answers the unsubscribe command with the id, unless that is 0; nil if the engines do not have it, and the command is
// answered.
func (s *Session) detach(b *Subscription, u protocol.Unsubscribe, id uint32) effect.Effect {
	if b.state == subEnded {
		return nil // with the session
	}
	var next effect.Effect
	if b.state.attached() {
		next = &effect.Detach{Items: []effect.DetachItem{b.detachItem(u)}, ID: id}
	} else {
		closeFeed(b.terms.Feed)
	}
	if b.state == subLive {
		s.env.Note(inspect.Unsubscribed, b.channel, u.Code, 0, u.Reason)
	}
	s.leaveHub(b)
	s.remove(b)
	if next == nil && id != 0 {
		s.finish(id, nil, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
	return next
}

// leaveHub comes before the state changes.
func (s *Session) leaveHub(b *Subscription) {
	s.env.Part(b)
	b.terms.Keys.End()
	if b.state == subLive {
		s.env.Counts().Unsubscribed(s, b.channel)
	}
}

func (b *Subscription) detachItem(u protocol.Unsubscribe) effect.DetachItem {
	it := effect.DetachItem{
		Channel: b.channel, Reason: u, ServerSide: b.serverSide, Connected: b.s.connected,
		Presence: b.presence, Leave: b.joined, Feed: b.terms.Feed, Maps: b.terms.PresenceMaps,
	}
	if it.Presence || it.Leave {
		it.Info = b.info()
	}
	return it
}

func (s *Session) afterDetach(e *effect.Detach) {
	if e.ID != 0 {
		s.finish(e.ID, e.Err, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
}

// Subscribed reports whether the client is subscribed to a channel.
func (s *Session) Subscribed(ch string) bool { return s.subs.Get(ch).established() }

// Subscriptions are the live ones, by channel.
func (s *Session) Subscriptions() map[string]inspect.Subscription {
	list := make(map[string]inspect.Subscription, s.subs.Len())
	for b := range s.subs.All() {
		if b.state == subLive {
			i := inspect.Subscription{ServerSide: b.serverSide, Source: b.source, Token: b.terms.Token}
			i.Positioned, i.Offset, i.Epoch = b.at.Reached()
			list[b.channel] = i
		}
	}
	return list
}

// Load is the bytes that wait for the client, and its commands in progress.
func (s *Session) Load() (queue, commands int) { return s.out.Size(), int(s.inflight) }
