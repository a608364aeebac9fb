package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/internal/sharedpoll"
	"github.com/gyrohq/gyro/protocol"
)

// The client of a shared poll channel tracks keys, in the terms of its subscription (sharedpoll.Keys). The subscription
// itself only gets the news that versions begin anew.

func (b *Subscription) trackKeys(poll *channel.SharedPoll) {
	t := *b.terms
	t.Keys = sharedpoll.NewKeys(&b.s.env.Scratch().Polls, b, b.channel, poll)
	b.terms = t.Shared()
}

// Send implements sharedpoll.Owner.
func (b *Subscription) Send(d *hub.Delivery, form hub.Form) { b.send(d, form) }

// Reset implements sharedpoll.Owner.
func (b *Subscription) Reset() {
	if b.state == subLive {
		b.insufficientState("", "")
	}
}

func (s *Session) handleTrack(id uint32, b *Subscription, req *protocol.SubRefreshRequest) effect.Effect {
	if err := b.terms.Keys.Check(req); err != nil {
		s.refuse(id, req.Channel, err)
		return nil
	}
	return s.begin(&effect.Track{Request: req, Poll: b.terms.Keys.Poll(), ID: id, Ref: b})
}

// afterTrack goes on when the application has decided.
func (s *Session) afterTrack(e *effect.Track) {
	b, r := e.Ref.(*Subscription), &s.env.Scratch().tracked
	defer r.Reset()
	err := e.Err
	if err == nil {
		if err = errNotSubscribed; b.state == subLive {
			for i, at := range e.ExpireAt {
				e.ExpireAt[i] = s.expiry(at)
			}
			budget := recovery.Budget(s.cfg.QueueMaxSize, 1)
			err = b.terms.Keys.Take(e.Request, e.ExpireAt, s.env.Now(), budget, s.via.Framer.Encoding(), r)
			s.leftOut(b.channel, r.LeftOut())
		}
		s.env.Explain(commandRefused, b.channel, err)
	}
	s.finish(e.ID, err, protocol.Reply{SubRefresh: &r.SubRefreshResult})
}
