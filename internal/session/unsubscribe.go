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

// handleUnsubscribe does the client's command.
func (s *Session) handleUnsubscribe(id uint32, req *protocol.UnsubscribeRequest) {
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
		s.detach(b, protocol.UnsubscribeClient, id)
	case b.state.waits():
		s.inflight++
		s.endCatchUp(b, protocol.UnsubscribeClient, id)
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

// endAsAsked ends a subscription because an unsubscribe came before the subscription was established.
func (s *Session) endAsAsked(b *Subscription) {
	ended, ids := *b.setup.ended, b.setup.unsubscribers
	b.setup.unsubscribers = nil
	if len(ids) == 0 {
		s.endWith(b, ended)
		return
	}
	for _, id := range ids[1:] {
		s.finish(id, nil, protocol.Reply{Unsubscribe: &protocol.UnsubscribeResult{}})
	}
	s.detach(b, ended, ids[0])
}

// ServerUnsubscribe ends the subscription to a channel, if there is one, and tells the
// client in any case.
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
		s.endCatchUp(b, u, 0)
		s.pushUnsubscribe(ch, u)
	default:
		b.setup.ended = &u
	}
}

// endWith drops a subscription and tells the client why.
func (s *Session) endWith(b *Subscription, u protocol.Unsubscribe) {
	s.detach(b, u, 0)
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

// detach takes an established subscription out of the hub and the session, and detaches it. If id
// is not 0, it is the id of an unsubscribe command, which detach answers.
func (s *Session) detach(b *Subscription, u protocol.Unsubscribe, id uint32) {
	if b.state == subLive {
		s.env.Note(inspect.Unsubscribed, b.channel, u.Code, 0, u.Reason)
	}
	s.leaveHub(b)
	item := b.detachItem(u)
	s.remove(b)
	s.start(&effect.Detach{Items: []effect.DetachItem{item}, ID: id})
}

// leaveHub takes a subscription out of the hub, before its state changes.
func (s *Session) leaveHub(b *Subscription) {
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

func (s *Session) afterDetach(e *effect.Detach) {
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
