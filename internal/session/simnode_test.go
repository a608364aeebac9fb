package session_test

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// execute does what the node would, and reports whether the effect is to be
// completed.
func (w *world) execute(l *connection, e effect.Effect) bool {
	switch e := e.(type) {
	case *effect.Connecting:
		w.authenticate(l, e)
	case *effect.Subscribing:
		b := l.sub(e.Request.Channel)
		if e.Err = w.fault(40); e.Err == nil {
			e.Options = b.options()
		}
	case *effect.Attach:
		budget := w.cfg.QueueMaxSize - 256 - 128*len(e.Items)
		for _, it := range e.Items {
			w.attach(l, it, &budget, e.ID == 0 && e.Connect == nil)
		}
	case *effect.Detach:
		w.detach(l, e.Items)
	case *effect.Undo:
		w.detach(l, e.Items)
	case *effect.Close:
		w.detach(l, e.Items)
	case *effect.Join:
		s := l.sub(e.Channel).ch
		if s.joined[l.id] {
			l.c.fail("joined %s twice", s.name)
		}
		s.joined[l.id] = true
	case *effect.Publish:
		if e.Err = w.fault(10); e.Err == nil {
			l.sub(e.Request.Channel).ch.publish(e.Request.Data, nil, w.now, true, true)
		}
	case *effect.History:
		s := l.sub(e.Channel).ch
		e.Top, e.Publications = s.position(), s.since(0, e.Limit)
	case *effect.RPC:
		e.Err = w.fault(10)
	}
	return e.Traits().Has(effect.Completes)
}

// check begins a round and reads the top of a stream, in two steps between which other
// things may happen; or has a top that was read follow what is on its way.
func (w *world) check(s *stream) {
	switch {
	case len(s.checks) > 0:
		m := s.checks[0]
		s.checks = s.checks[1:]
		if m.Pub == nil {
			top := s.position()
			m.Epoch, m.Pub = top.Epoch, &channel.Publication{Offset: top.Offset}
			s.checks = append(s.checks, m)
			w.trace("%s: top %d %s read in round %d", s.name, s.top, s.epoch, m.Round)
		} else if s.routed > 0 {
			s.transit = append(s.transit, m)
		}
	case s.routed > 0:
		s.checks = append(s.checks, &hub.Message{Channel: s.name, Kind: hub.KindCheck, Round: w.cfg.Rounds.Begin()})
	}
}

func (l *connection) sub(ch string) *simSub {
	for _, b := range l.c.subs {
		if b.ch.name == ch {
			return b
		}
	}
	panic("no channel " + ch)
}

func (w *world) authenticate(l *connection, e *effect.Connecting) {
	if e.Err = w.fault(40); e.Err != nil {
		return
	}
	e.Identity.Known, e.Identity.User = true, l.c.name
	if !l.c.serverSide {
		return
	}
	e.Identity.Subs = make(map[string]channel.SubscribeOptions)
	for _, b := range l.c.subs {
		e.Identity.Subs[b.ch.name] = b.options()
	}
}

// attach subscribes in the broker, adds presence and reads the stream. A subscription that replaces another one has no
// deltas.
func (w *world) attach(l *connection, it *effect.AttachItem, budget *int, replaces bool) {
	b := l.sub(it.Channel)
	s := b.ch
	if it.Err = w.fault(60); it.Err != nil {
		return
	}
	s.routed++
	if s.present[l.id]++; s.present[l.id] > 1 {
		l.c.fail("present in %s twice", s.name)
	}
	it.ChannelID, it.Top = s.id, s.position()
	switch {
	case it.Since != nil:
		it.Publications = s.since(it.Since.Offset, it.Limit)
	case it.Reverse:
		it.Publications = s.latest(it.Limit)
	}
	l.reads[s.index] = append(l.reads[s.index], b.judge(it, l.epochs[s.index], w.cfg.RecoveryLimit).within(budget, b.delta && !replaces && l.c.enc == protocol.JSON))
	l.epochs[s.index] = it.Top.Epoch
}

func (w *world) detach(l *connection, items []effect.DetachItem) {
	for _, it := range items {
		s := l.sub(it.Channel).ch
		if s.routed--; s.routed < 0 || s.present[l.id] != 1 {
			l.c.fail("detached from %s without being attached", s.name)
		}
		if s.routed == 0 && !w.calm && w.random.IntN(2) == 0 {
			s.transit = nil // the broker is unsubscribed
		}
		delete(s.present, l.id)
		if it.Leave != s.joined[l.id] {
			l.c.fail("leave %v of %s, joined %v", it.Leave, s.name, s.joined[l.id])
		}
		delete(s.joined, l.id)
	}
}
