package session

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/recovery"
)

// A client that comes back may miss publications in many channels, more than the queue takes at once. The session holds
// a read whose reply does not fit into the queue until the client has taken enough. Meanwhile no further command is
// dispatched and no further effect is done, so there is one read beside the queue.

// held are the reads that wait, in their order.
type held struct {
	on      bool // also while the last one is taken
	effects []effect.Effect
	size    int   // of the reply to the first one
	since   int64 // when it began to wait, in Unix nanoseconds
}

// holds accepts nil.
func (p *pending) holds() bool { return p != nil && p.held.on }

// holds reports whether e is held in place of being taken.
func (s *Session) holds(e effect.Effect) bool {
	if s.out.Size() == 0 && !s.pending.holds() || s.state == stateAuthenticating {
		return false
	}
	size := replySize(e)
	if size == 0 || !s.pending.holds() && s.makesRoom(size) {
		return false
	}
	if s.pending == nil {
		s.pending = new(pending)
	}
	h := &s.pending.held
	h.effects = append(h.effects, e)
	if !h.on {
		h.on, h.size, h.since = true, size, s.env.Now()
		s.env.Hold(true)
	}
	return true
}

// takes reports whether the queue takes so many bytes. An empty one always does.
func (s *Session) takes(size int) bool {
	return s.out.Size() == 0 || s.out.Size()+size <= s.cfg.QueueMaxSize
}

// makesRoom flushes the queue if it must.
func (s *Session) makesRoom(size int) bool {
	if s.takes(size) {
		return true
	}
	s.flushQueue()
	return s.takes(size)
}

// replySize estimates the reply to a read; 0 if e has read no publication.
func replySize(e effect.Effect) (size int) {
	switch e := e.(type) {
	case *effect.Attach:
		for _, it := range e.Items {
			b := attaching(it)
			size += b.sizeOf(it.Publications)
			if c := b.setup.catchup; c != nil {
				size += b.sizeOf(c.page.Publications)
			}
		}
	case *effect.Page:
		b := e.Ref.(*Subscription)
		size = b.sizeOf(e.State.Entries) + b.sizeOf(e.History.Publications)
	}
	if size > 0 {
		size += recovery.Overhead(1)
	}
	return size
}

// sizeOf is the most bytes of publications in a reply.
func (b *Subscription) sizeOf(pubs []*channel.Publication) int {
	size := recovery.Sum(pubs)
	if b.escapes() {
		size *= 2
	}
	return size
}

// askForHeld asks for Resume if a held read fits now.
func (s *Session) askForHeld() {
	if s.pending.holds() && s.takes(s.pending.held.size) {
		s.ask()
	}
}

// heldSince reports whether a read was held at a time already, for a client that took nothing since.
func (s *Session) heldSince(at int64) bool { return s.pending.holds() && s.pending.held.since <= at }

// takeHeld takes the held reads that fit, and reports whether none is left.
func (s *Session) takeHeld() bool {
	if !s.pending.holds() {
		return true
	}
	for h := &s.pending.held; len(h.effects) > 0; {
		e := h.effects[0]
		h.size = replySize(e)
		if !s.makesRoom(h.size) {
			return false
		}
		h.effects[0] = nil
		h.effects, h.since = h.effects[1:], s.env.Now()
		s.run(s.take(e))
		if s.state == stateClosed {
			return false
		}
	}
	s.pending.held.on = false
	s.env.Hold(false)
	return true
}

// dropPending gives up what waits when the session has ended.
func (s *Session) dropPending() {
	p := s.pending
	s.pending = nil
	if !p.holds() {
		return
	}
	for _, e := range p.held.effects {
		s.completeLate(e)
	}
	s.env.Hold(false)
}
