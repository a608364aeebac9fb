package session_test

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
)

// deliver hands what the broker sent to a node. It may lose one, or repeat one that has an offset.
func (w *mapWorld) deliver(s *simMap, n *mapNode) {
	way := &s.ways[n.index]
	for k := 1 + w.random.IntN(4); k > 0 && len(way.transit) > 0; k-- {
		m, fate := way.transit[0], w.random.IntN(40)
		safe := w.calm || w.honest
		if safe || fate != 1 || s.opts.Ephemeral || m.Kind != hub.KindPublication {
			way.transit = way.transit[1:]
		}
		if !safe && fate == 0 && m.Kind == hub.KindPublication {
			w.trace("%s %s lost on its way to node %d", s.name, describe(m), n.index)
			if way.lose(m); w.random.IntN(2) == 0 { // and the broker notices at once
				w.check(s, n)
			}
			continue
		}
		n.take(w, s, m)
	}
	if w.calm || w.random.IntN(w.sweeps) == 0 {
		n.hub.Deliver(1 + w.random.IntN(8))
	}
}

// take is how a node takes what the broker sent. The news that something may be lost begins a round.
func (n *mapNode) take(w *mapWorld, s *simMap, m *hub.Message) {
	if way := &s.ways[n.index]; s.opts.Ephemeral && m.Kind == hub.KindCheck {
		m.Round = n.cfg.Rounds.Begin()
		for i, round := range way.lost {
			if round == 0 {
				way.lost[i] = m.Round
			}
		}
	} else if s.opts.Ephemeral && m.Kind == hub.KindPublication {
		way.taken[number(m.Pub.Tags)] = n.cfg.Rounds.Now()
	} else if m.Kind == hub.KindPublication {
		way.latest = channel.StreamPosition{Offset: m.Pub.Offset, Epoch: m.Epoch}
	}
	w.trace("%s %s on node %d", s.name, describe(m), n.index)
	n.hub.Publish(m)
}

// describe names a message in a trace.
func describe(m *hub.Message) string {
	if m.Kind == hub.KindCheck {
		return fmt.Sprintf("check %d %s of round %d", m.Pub.Offset, m.Epoch, m.Round)
	}
	return fmt.Sprintf("change %d%s", m.Pub.Offset, m.Pub.Tags["n"])
}

// check begins a round on a node and reads the top of a stream, in two steps between which other things may
// happen; or has a top that was read follow what is on its way. The broker tells a node of an ephemeral map
// when something may be lost.
func (w *mapWorld) check(s *simMap, n *mapNode) {
	way := &s.ways[n.index]
	suspect := way.suspect
	if s.opts.Ephemeral {
		if way.suspect = false; suspect && way.routed > 0 {
			way.transit = append(way.transit, &hub.Message{
				Channel: s.name, Kind: hub.KindCheck, Pub: &channel.Publication{},
			})
		}
		return
	}
	switch {
	case len(way.checks) > 0:
		m := way.checks[0]
		way.checks = way.checks[1:]
		if m.Pub == nil {
			top := s.position()
			m.Epoch, m.Pub = top.Epoch, &channel.Publication{Offset: top.Offset}
			way.checks = append(way.checks, m)
			w.trace("%s: node %d reads top %v in round %d", s.name, n.index, top, m.Round)
		} else if way.routed > 0 {
			way.transit = append(way.transit, m)
		}
	case way.routed > 0:
		way.checks = append(way.checks, &hub.Message{Channel: s.name, Kind: hub.KindCheck, Round: n.cfg.Rounds.Begin()})
	}
}

// execute does what a node would, and reports whether the effect is to be completed.
func (w *mapWorld) execute(l *mapConnection, e effect.Effect) bool {
	switch e := e.(type) {
	case *effect.Connecting:
		if e.Err = w.fault(40); e.Err == nil {
			e.Identity.Known, e.Identity.User = true, l.c.name
		}
	case *effect.Subscribing:
		known := l.of(l.sub(e.Request.Channel).s)
		known.began, known.target = w.now, 0
		if e.Err = w.fault(60); e.Err == nil {
			e.Options = l.sub(e.Request.Channel).s.options()
		}
	case *effect.Page:
		w.page(l, e)
	case *effect.Attach:
		for _, it := range e.Items {
			w.attach(l, it)
		}
	case *effect.Detach:
		w.detach(l, e.Items)
	case *effect.Undo:
		w.detach(l, e.Items)
	case *effect.Close:
		w.detach(l, e.Items)
	case *effect.Join:
		s := l.sub(e.Channel).s
		l.of(s).live = s.top
		if s.joined[l.id] {
			l.c.fail("joined %s twice", s.name)
		}
		s.joined[l.id] = true
	}
	return e.Traits().Has(effect.Completes)
}

// page reads a page of a map.
func (w *mapWorld) page(l *mapConnection, e *effect.Page) {
	b := l.sub(e.Channel)
	s := b.s
	if e.Err = w.fault(80); e.Err != nil {
		return
	}
	if f := e.Changes; f != nil {
		e.History = s.history(*f)
		if l.of(s).target == 0 {
			l.of(s).target = s.top
		}
		l.of(s).near = f.Since.Offset+uint64(f.Limit) >= l.of(s).target
		l.of(s).excused = !s.continues(channel.StreamPosition{Offset: f.Since.Offset, Epoch: b.sent.Epoch})
		return
	}
	e.State = s.state(e.StateFilter)
	if e.Cursor == "" {
		l.of(s).frozen, l.of(s).floor = s.position(), s.top
	}
	l.of(s).excused = s.position().Epoch != l.of(s).frozen.Epoch
	l.of(s).near = s.opts.Ephemeral || l.of(s).frozen.Offset+uint64(e.Limit) >= s.top
	if s.opts.Ephemeral { // which means nothing
		e.State.Top = channel.StreamPosition{Offset: s.top, Epoch: strconv.Itoa(s.incarnation)}
	}
}

// unrouted tells whether a subscription is the node's first to an ephemeral map.
func (w *mapWorld) unrouted(l *mapConnection, it *effect.AttachItem) bool {
	s := l.sub(it.Channel).s
	return s.opts.Ephemeral && s.ways[l.node.index].routed == 0
}

// attach subscribes in the broker, adds presence and reads the stream.
func (w *mapWorld) attach(l *mapConnection, it *effect.AttachItem) {
	b := l.sub(it.Channel)
	s, way := b.s, &b.s.ways[l.node.index]
	if it.Err = w.fault(60); it.Err != nil {
		return
	}
	if w.unrouted(l, it) {
		w.handOver(s, l.node)
	}
	way.routed++
	if s.present[l.id]++; s.present[l.id] > 1 {
		l.c.fail("present in %s twice", s.name)
	}
	it.ChannelID = s.id
	l.of(s).top, l.of(s).live = s.position(), math.MaxUint64
	if it.Positioned {
		it.History = s.history(it.HistoryFilter)
		l.of(s).excused = !w.attachable(l, b, it.Since.Offset)
	}
}

// handOver has everything reach a node that is on its way there since an earlier subscription: it comes
// before the broker's answer to the next one.
func (w *mapWorld) handOver(s *simMap, n *mapNode) {
	way := &s.ways[n.index]
	for _, m := range way.transit {
		n.take(w, s, m)
	}
	way.transit = nil
	for n.hub.Deliver(100) {
	}
}

// attachable tells whether a subscription can go live from an offset.
func (w *mapWorld) attachable(l *mapConnection, b *mapSub, since uint64) bool {
	s, epoch := b.s, b.sent.Epoch
	if b.sent.Phase == recovery.PhaseState {
		epoch = l.of(s).frozen.Epoch
	}
	limit := s.opts.LiveLimit
	if limit == 0 {
		limit = s.opts.MaxPageSize
	}
	if !s.continues(channel.StreamPosition{Offset: since, Epoch: epoch}) || s.top-since > uint64(limit) {
		return false
	}
	size := 0
	for _, p := range s.truth[s.epoch][since:] {
		if b.passes(p.Tags) {
			size += recovery.Size(p)
		}
	}
	return size <= recovery.Budget(l.node.cfg.QueueMaxSize, 1)
}

func (w *mapWorld) detach(l *mapConnection, items []effect.DetachItem) {
	for _, it := range items {
		s := l.sub(it.Channel).s
		way := &s.ways[l.node.index]
		if way.routed--; way.routed < 0 || s.present[l.id] != 1 {
			l.c.fail("detached from %s without being attached", s.name)
		}
		if way.routed == 0 && !w.calm && w.random.IntN(2) == 0 {
			w.trace("%s: node %d is unsubscribed, %d changes are dropped", s.name, l.node.index, len(way.transit))
			way.transit = nil // the broker is unsubscribed
		}
		delete(s.present, l.id)
		if it.Leave != s.joined[l.id] {
			l.c.fail("leave %v of %s, joined %v", it.Leave, s.name, s.joined[l.id])
		}
		delete(s.joined, l.id)
	}
}
