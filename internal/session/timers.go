package session

import (
	"time"

	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// deadlines in Unix nanoseconds; 0 for none. Only the earliest one is scheduled.
type deadlines struct {
	stale, ping, pong, expire, periodic, unsubscribe int64
}

func (s *Session) reschedule() {
	d := &s.deadlines
	s.env.Schedule(beat.Earliest(d.stale, d.ping, d.pong, d.expire, d.periodic, d.unsubscribe))
}

func (s *Session) pings() bool { return s.cfg.PingInterval > 0 && !s.via.NativePing }

func (s *Session) pongs() bool { return s.cfg.PongTimeout > 0 && s.via.Pongs() }

func (s *Session) startTimers() {
	now, d := s.env.Now(), &s.deadlines
	d.stale = 0
	if s.pings() {
		d.ping = s.cfg.Beat.First(now, s.cfg.PingInterval, s.env.Phase)
	}
	switch {
	case s.cfg.PresenceInterval <= 0:
	case s.pings() && s.cfg.PresenceInterval == s.cfg.PingInterval:
		d.periodic = d.ping // so that one tick serves both
	default:
		d.periodic = s.cfg.Beat.First(now, s.cfg.PresenceInterval, s.env.Phase)
	}
	s.setExpiry()
}

// setExpiry: with client-side refresh the connection ends after a grace period, else the application is asked at the
// very time.
func (s *Session) setExpiry() {
	s.deadlines.expire = 0
	if at := s.credentials.Get().ExpireAt; at != 0 {
		s.deadlines.expire = at * int64(time.Second)
		if s.clientRefresh {
			s.deadlines.expire += int64(s.cfg.ExpiredDelay)
		}
	}
	s.reschedule()
}

// Tick follows the deadline of Env.Schedule.
func (s *Session) Tick() {
	if s.state == stateClosed {
		return
	}
	now, d := s.env.Now(), &s.deadlines
	if beat.Take(&d.stale, now) {
		s.env.Explain(ConnectRefused, "", errStale)
		s.Close(protocol.DisconnectStale)
		return
	}
	if beat.Take(&d.pong, now) && !s.pongOverdue(now) {
		return
	}
	if beat.Take(&d.unsubscribe, now) {
		s.unsubscribeOverdue(now)
	}
	if beat.Take(&d.expire, now) {
		s.expired()
	}
	if s.state == stateConnected && beat.Take(&d.ping, now) {
		s.ping(now)
	}
	if s.state == stateConnected && beat.Take(&d.periodic, now) {
		d.periodic = s.cfg.Beat.Next(now, s.cfg.PresenceInterval)
		s.periodic(now)
	}
	if s.state != stateClosed {
		s.reschedule()
	}
}

// pongOverdue disconnects the client, unless the session is paused and cannot see the pong. It reports whether the
// session goes on.
func (s *Session) pongOverdue(now int64) bool {
	switch wait := int64(s.cfg.PongTimeout); {
	case !s.paused:
		s.Close(protocol.DisconnectNoPong)
	case s.heldSince(now - wait):
		s.env.Refused(observe.LimitQueue, "")
		s.Close(protocol.DisconnectSlow)
	default:
		s.deadlines.pong = now + wait
	}
	return s.state != stateClosed
}

func (s *Session) ping(now int64) {
	s.deadlines.ping = s.cfg.Beat.Next(now, s.cfg.PingInterval)
	if s.pongs() {
		s.pongsDue = max(s.pongsDue, s.pongsDue+1)
		s.deadlines.pong = now + int64(s.cfg.PongTimeout)
	}
	s.reply(protocol.Reply{})
}

// handlePong takes an empty command. Each ping allows one.
func (s *Session) handlePong() {
	if s.pongsDue == 0 {
		s.refuse(0, "", errPong)
		return
	}
	if s.pongsDue--; s.pongsDue == 0 {
		s.env.Pong(s.deadlines.pong - int64(s.cfg.PongTimeout))
		s.deadlines.pong = 0
		s.reschedule()
	}
}

func (s *Session) expired() {
	if s.state != stateConnected {
		return
	}
	if s.clientRefresh || !s.cfg.Handles.Refresh {
		s.Close(protocol.DisconnectExpired)
		return
	}
	s.run(s.begin(&effect.Refresh{}))
}

// unsubscribeOverdue closes a connection whose unsubscribe waited too long for its subscribe.
func (s *Session) unsubscribeOverdue(now int64) {
	for b := range s.subs.All() {
		if b.setup == nil || len(b.setup.unsubscribers) == 0 {
			continue
		}
		if b.setup.unsubscribeBy <= now {
			s.Close(protocol.DisconnectServerError)
			return
		}
		s.deadlines.unsubscribe = beat.Earliest(s.deadlines.unsubscribe, b.setup.unsubscribeBy)
	}
}

// periodic renews presence and looks for expired subscriptions.
func (s *Session) periodic(now int64) {
	var renew []effect.RenewItem
	for b := range s.subs.All() {
		if b.state != subLive {
			s.endLateCatchUp(b)
			continue
		}
		if b.overdue(now) {
			s.subOverdue(b)
			if s.state == stateClosed {
				return
			}
			if b.state != subLive {
				continue
			}
		}
		b.terms.Keys.Expire(now)
		if b.presence || len(b.terms.PresenceMaps) > 0 {
			renew = append(renew, effect.RenewItem{Channel: b.channel, Info: b.info(), Presence: b.presence, Maps: b.terms.PresenceMaps})
		}
	}
	if len(renew) > 0 {
		s.env.Do(&effect.Renew{Items: renew})
	}
}

// overdue: the expiration and the grace period are over.
func (b *Subscription) overdue(now int64) bool {
	at := b.terms.ExpireAt
	return at != 0 && now > at*int64(time.Second)+int64(b.s.cfg.ExpiredSubDelay)
}

// renews reports whether the application is asked when a subscription expires.
func (s *Session) renews(b *Subscription) bool { return !b.clientRefresh && s.cfg.Handles.SubRefresh }

func (s *Session) subOverdue(b *Subscription) {
	if !s.renews(b) {
		s.subExpired(b)
		return
	}
	if !b.refreshing {
		b.refreshing = true
		s.run(s.begin(&effect.SubRefresh{Channel: b.channel, Ref: b}))
	}
}

func (s *Session) subExpired(b *Subscription) {
	s.endOrClose(b, protocol.DisconnectSubExpired, protocol.UnsubscribeExpired)
}
