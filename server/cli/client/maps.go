package client

import (
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
)

// Phases in which a client catches up with a map, as the protocol numbers them. That of one that is live is 0.
const (
	phaseStream = 1
	phaseState  = 2
)

const (
	// maxHeld bounds the entries and changes that wait until it is known how they are encoded.
	maxHeld = 1_000_000
	// maxRestarts is how often a client begins anew with a map before it makes another connection.
	maxRestarts = 5
)

// mapState is where the subscription to a map stands.
type mapState struct {
	fresh      bool // the next page is the first one of the state
	known      bool // entries were told of
	recovering bool // the pages are what has changed since the position
	live       bool
	restarts   int
	// held waits until the client is live if deltas were asked for: only then it is known whether data is text in a string.
	held []Event
}

// begin fills in the first request of a catch-up: for what has changed since the position, else for the state.
func (m *mapState) begin(req *protocol.SubscribeRequest, recoverable bool) {
	m.live, m.recovering, m.held = false, recoverable, nil
	if req.Phase = phaseStream; !recoverable {
		req.Phase, m.fresh = phaseState, true
	}
}

// again begins anew with the state: changes since the position are not there any more.
func (s *session) again(sub *subscription) error {
	sub.recoverable, sub.at = false, protocol.StreamPosition{}
	if sub.state.restarts++; sub.state.restarts > maxRestarts {
		return fmt.Errorf("subscribe to %q: its changes go faster than they are read", sub.Name)
	}
	return s.ask(sub)
}

// caughtUp handles a page of a map, the last one of which makes the subscription live.
func (s *session) caughtUp(sub *subscription, res *protocol.SubscribeResult) error {
	m := &sub.state
	if m.fresh {
		m.fresh = false
		sub.whole.forget()
		if m.known {
			if err := s.handle(Event{Kind: Reset, Channel: sub.Name}); err != nil {
				return err
			}
		}
		m.known = true
	}
	state, changes := res.State, res.Publications
	res.State, res.Publications = nil, nil
	if res.Phase == 0 {
		if err := s.live(sub, res); err != nil {
			return err
		}
	}
	for _, pub := range state {
		if err := s.page(sub, Entry, pub); err != nil {
			return err
		}
	}
	for _, pub := range changes {
		if err := s.page(sub, Published, pub); err != nil {
			return err
		}
	}
	if res.Phase == 0 {
		sub.recoverable, sub.at = res.Recoverable, protocol.StreamPosition{Offset: res.Offset, Epoch: res.Epoch}
		return s.handle(Event{Kind: Subscribed, Channel: sub.Name, Result: res})
	}
	return s.next(sub, res)
}

// next asks for the page behind one.
func (s *session) next(sub *subscription, res *protocol.SubscribeResult) error {
	req := &protocol.SubscribeRequest{
		Channel: sub.Name, Type: int32(sub.Type), Phase: phaseState, Cursor: res.Cursor, Offset: res.Offset, Epoch: res.Epoch, Recover: sub.state.recovering,
	}
	if res.Cursor == "" {
		req.Phase = phaseStream
	}
	if s.cfg.Delta {
		req.Delta = fossil
	}
	cmd := &protocol.Command{ID: s.nextID(), Subscribe: req}
	s.subscribing[cmd.ID] = sub.Name
	return s.conn.Send(cmd)
}

// live lets what was held go: it is known now how it is encoded.
func (s *session) live(sub *subscription, res *protocol.SubscribeResult) error {
	m := &sub.state
	sub.whole.negotiated(res.Delta)
	m.live, m.restarts = true, 0
	held := m.held
	m.held = nil
	for _, e := range held {
		if err := s.page(sub, e.Kind, e.Publication); err != nil {
			return err
		}
	}
	return nil
}

// page tells of an entry or a change, or holds it.
func (s *session) page(sub *subscription, kind EventKind, pub *protocol.Publication) error {
	m := &sub.state
	if s.cfg.Delta && !m.live {
		if len(m.held) >= maxHeld {
			return fatal{errors.New("the map is too large for deltas: leave them out")}
		}
		m.held = append(m.held, Event{Kind: kind, Publication: pub})
		return nil
	}
	if err := sub.whole.restore(pub); err != nil {
		return fmt.Errorf("%s: %w", sub.Name, err)
	}
	return s.handle(Event{Kind: kind, Channel: sub.Name, Publication: pub})
}

// changed handles a change that comes live.
func (s *session) changed(sub *subscription, pub *protocol.Publication) error {
	if err := s.page(sub, Published, pub); err != nil {
		return err
	}
	if pub.Offset > 0 {
		sub.at.Offset = pub.Offset
	}
	return nil
}
