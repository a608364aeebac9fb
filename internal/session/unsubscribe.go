package session

import (
	"time"

	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/protocol"
)

// unsubscribeWait is how long an unsubscribe command waits for a subscribe that
// is under way.
const unsubscribeWait = 5 * time.Second

// unsubscribe does the client's command.
func (s *Session) unsubscribe(id uint32, req *protocol.UnsubscribeRequest) {
	if req.Channel == "" {
		s.refuse(id, "", errNoChannel)
		return
	}
	b := s.subs.Get(req.Channel)
	switch {
	case b == nil:
		s.reply(protocol.Reply{ID: id, Unsubscribe: &protocol.UnsubscribeResult{}})
	case b.state == subLive:
		s.inflight++
		s.drop(b, protocol.UnsubscribeClient, id)
	case b.state.waits():
		s.inflight++
		s.quit(b, protocol.UnsubscribeClient, id)
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
}

// endPending ends a subscription for which an unsubscribe came before it was established.
func (s *Session) endPending(b *Subscription) {
	ended, ids := *b.setup.ended, b.setup.unsubscribers
	b.setup.unsubscribers = nil
	if len(ids) == 0 {
		s.end(b, ended)
		return
	}
	for _, id := range ids[1:] {
		s.finish(id, nil, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
	s.drop(b, ended, ids[0])
}

// Unsubscribe ends the subscription to a channel, if there is one, and tells the
// client in any case.
func (s *Session) Unsubscribe(ch string, u protocol.Unsubscribe) {
	if s.state != stateConnected {
		return
	}
	b := s.subs.Get(ch)
	switch {
	case b == nil:
		s.pushUnsubscribe(ch, u)
	case b.state == subLive:
		if s.env.Finish(b); b.state == subLive {
			s.end(b, u)
		}
	case b.state.waits():
		s.quit(b, u, 0)
		s.pushUnsubscribe(ch, u)
	default:
		b.setup.ended = &u
	}
}

// end drops a subscription and tells the client why.
func (s *Session) end(b *Subscription, u protocol.Unsubscribe) {
	s.drop(b, u, 0)
	s.pushUnsubscribe(b.channel, u)
}

// revoke ends a subscription by u, or the whole connection by d if the server made it.
func (s *Session) revoke(b *Subscription, d protocol.Disconnect, u protocol.Unsubscribe) {
	if b.serverSide {
		s.Disconnect(d)
		return
	}
	s.end(b, u)
}

func (s *Session) pushUnsubscribe(ch string, u protocol.Unsubscribe) {
	s.reply(protocol.Reply{Push: &protocol.Push{Channel: ch, Unsubscribe: &u}})
}

// drop takes an established subscription out of the hub and the session, and detaches it. An
// id that is not 0 is that of an unsubscribe command, which is answered then.
func (s *Session) drop(b *Subscription, u protocol.Unsubscribe, id uint32) {
	if b.state == subLive {
		s.env.Note(inspect.Unsubscribed, b.channel, u.Code, 0, u.Reason)
	}
	s.part(b)
	item := b.detachItem(u)
	s.forget(b)
	s.start(&effect.Detach{Items: []effect.DetachItem{item}, ID: id})
}

// part takes a subscription out of the hub, before its state changes.
func (s *Session) part(b *Subscription) {
	s.env.Part(b)
	b.terms.Keys.End()
	if b.state == subLive {
		s.env.Counts().Unsubscribed(s, b.channel)
	}
}

func (b *Subscription) detachItem(u protocol.Unsubscribe) effect.DetachItem {
	it := effect.DetachItem{
		Channel: b.channel, Reason: u, ServerSide: b.serverSide,
		Presence: b.presence, Leave: b.joined, Feed: b.terms.Feed, Maps: b.terms.PresenceMaps,
	}
	if it.Presence || it.Leave {
		it.Info = b.info()
	}
	return it
}

func (s *Session) detached(e *effect.Detach) {
	if e.ID != 0 {
		s.finish(e.ID, e.Err, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
}

// Subscribed reports whether the client is subscribed to a channel.
func (s *Session) Subscribed(ch string) bool { return s.subs.Get(ch).established() }

// Subscriptions are the established ones, by channel.
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

// Load tells how many bytes wait for the client, and how many of its commands are in progress.
func (s *Session) Load() (queue, commands int) { return s.out.Size(), int(s.inflight) }
