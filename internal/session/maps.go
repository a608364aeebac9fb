package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/protocol"
)

// A client subscribes to a map by several commands, each with a reply, until one of them makes the subscription live
// (docs/maps.md, recovery.Catchup). An ephemeral map, whose changes cannot be read later, is attached at once and
// buffers them; another map when it goes live.

// catchup of a subscription.
type catchup struct {
	recovery.Catchup
	lost bool // changes of an ephemeral map may be missing in the buffer
	// page is the last one, for the reply that goes live.
	page recovery.Page
}

func (b *Subscription) catching() bool { return b != nil && b.state.catchesUp() }

// catchesUp is catching, or attaching to go live. b may be nil.
func (b *Subscription) catchesUp() bool { return b != nil && b.setup != nil && b.setup.catchup != nil }

// nextPage takes the client's next request for a map that it catches up with.
func (s *Session) nextPage(b *Subscription, id uint32, req *protocol.SubscribeRequest) effect.Effect {
	switch c := b.setup.catchup; {
	case c.Late(s.env.Now()):
		s.env.Explain(commandRefused, b.channel, ErrLate)
		s.failCatchUp(b, id, ErrLate)
	case b.state.reads(): // before the ways to end the subscription, because its page is being read
		s.env.Explain(commandRefused, b.channel, errPaging)
		s.finish(id, errPaging, protocol.Reply{})
	case b.overdue(s.env.Now()) && !s.renews(b):
		s.env.Explain(commandRefused, b.channel, errSubExpired)
		s.failCatchUp(b, id, errSubExpired)
	default:
		var err error
		if b.terms, err = b.terms.Refiltered(b.setup.opts, req.Tf); err != nil {
			s.env.Explain(commandRefused, b.channel, err)
			s.finish(id, err, protocol.Reply{})
			return nil
		}
		b.state = b.state.reading()
		return s.advance(b, id, req)
	}
	return nil
}

// endLateCatchUps spares the channel except.
func (s *Session) endLateCatchUps(except string) {
	for b := range s.subs.All() {
		if b.channel != except {
			s.endLateCatchUp(b)
		}
	}
}

func (s *Session) endLateCatchUp(b *Subscription) {
	if b.state.waits() && b.setup.catchup.Late(s.env.Now()) {
		s.end(b, protocol.UnsubscribeServer)
	}
}

func (s *Session) catchUp(b *Subscription, id uint32) effect.Effect {
	m := b.setup.opts.Map
	budget := recovery.Budget(s.cfg.QueueMaxSize, 1)
	if b.escapes() {
		budget /= 2
	}
	c := &catchup{Catchup: *recovery.NewCatchup(m, s.env.Now(), budget)}
	b.setup.catchup, b.state = c, subReading
	if m.Ephemeral {
		return s.attach(b, id)
	}
	return s.advance(b, id, b.setup.subscribing.Request)
}

func (s *Session) advance(b *Subscription, id uint32, req *protocol.SubscribeRequest) effect.Effect {
	c := b.setup.catchup
	b.setup.subscribing.Request, c.page = req, recovery.Page{}
	page := &effect.Page{Channel: b.channel, ID: id, Ref: b}
	switch step, err := c.Ask(req); {
	case err != nil:
		s.failCatchUp(b, id, err)
		return nil
	case step == recovery.GoLive:
		return s.mapLive(b, id)
	case step == recovery.ReadState:
		page.StateFilter = c.StateFilter()
	default:
		page.Changes = new(c.HistoryFilter())
	}
	return page
}

// mapLive attaches the subscription first unless the engines have it.
func (s *Session) mapLive(b *Subscription, id uint32) effect.Effect {
	if !b.state.attached() {
		return s.attach(b, id)
	}
	return s.replyLive(b, id, &b.setup.item)
}

func (s *Session) afterPage(e *effect.Page) effect.Effect {
	b := e.Ref.(*Subscription)
	c := b.setup.catchup
	var page recovery.Page
	var live bool
	var err error
	switch {
	case e.Err != nil:
		err = protocol.ErrorInternal // logged where it happened
	case e.Changes == nil:
		page, live, err = c.Entries(e.State, b.terms.Lets)
	default:
		page, live, err = c.Changes(e.History, b.terms.Lets)
	}
	switch {
	case err != nil:
		s.failCatchUp(b, e.ID, err)
	case live:
		c.page = page
		return s.mapLive(b, e.ID)
	default:
		s.replyPage(b, e.ID, &page)
	}
	return nil
}

func (s *Session) replyPage(b *Subscription, id uint32, page *recovery.Page) {
	result := &s.env.Scratch().subscribed
	defer result.Reset()
	r := &result.Result
	*r = protocol.SubscribeResult{
		Type: int32(channel.MapData), Phase: b.setup.subscribing.Request.Phase,
		Cursor: page.Cursor, Epoch: page.Position.Epoch, Offset: page.Position.Offset,
	}
	var err error
	if r.Phase == recovery.PhaseState {
		err = b.putEntries(result, page)
	} else {
		r.Publications = result.Missed.Whole(page.Publications, b.at.Form, s.via.Framer.Encoding())
		s.leftOut(b.channel, result.Missed.LeftOut)
	}
	if err != nil {
		s.failCatchUp(b, id, err)
		return
	}
	b.state = b.state.waiting()
	s.finish(id, nil, protocol.Reply{Subscribe: r})
	if s.state == stateClosed || b.setup.ended == nil {
		return
	}
	u, asked := *b.setup.ended, len(b.setup.unsubscribers) > 0
	s.end(b, u)
	if !asked {
		s.pushUnsubscribe(b.channel, u)
	}
}

func (b *Subscription) completeCatchUp(of *subscribeResult) error {
	setup, r := b.setup, &of.Result
	r.Type, r.Positioned, r.Data = int32(channel.MapData), false, nil
	r.WasRecovering = setup.subscribing.Request.Recover && setup.subscribing.Request.Phase != recovery.PhaseState
	r.Recovered = r.WasRecovering
	return b.putEntries(of, &setup.catchup.page)
}

// putEntries shares the encoding of a page among the subscribers of the loop, unless they filter.
func (b *Subscription) putEntries(of *subscribeResult, page *recovery.Page) error {
	share := !b.terms.Filtered() && !b.setup.opts.Map.Ephemeral
	key := recovery.PageKey{
		Channel: b.channel, Cursor: page.From, Limit: page.Limit, Top: page.Top, Since: page.Position.Offset,
		Form: b.at.Form & hub.Escaped, Encoding: b.s.via.Framer.Encoding(),
	}
	of.Entries.LeftOut = 0 // also if the page is shared
	err := b.s.env.Scratch().pages.Fill(&of.Result, key, page.Publications, share, &of.Entries)
	b.s.leftOut(b.channel, of.Entries.LeftOut)
	return err
}

// failCatchUp answers with an error, and makes the client begin anew.
func (s *Session) failCatchUp(b *Subscription, id uint32, err error) {
	s.finish(id, err, protocol.Reply{})
	s.end(b, protocol.UnsubscribeServer)
}
