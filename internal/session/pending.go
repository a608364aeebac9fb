package session

import (
	"math"

	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
)

// pending are received commands that wait: for a connect, for commands in progress, for other clients, or for a held
// effect.
type pending struct {
	backlog
	held held
	// asked is set from Env.Again until Resume.
	asked bool
	// lost is set if the connection has ended meanwhile.
	lost *protocol.Disconnect
}

// Receive takes a transport message with one or more commands, without keeping msg. It ignores messages of an emulated
// client after the end of its connection.
func (s *Session) Receive(msg []byte) {
	switch {
	case s.state == stateClosed, s.leaving():
	case s.via.Mode == transport.OneWay:
		s.takeConnect(msg)
	case s.pending == nil && !s.mustWait() && !s.yields(msg):
		if rest := s.process(msg); len(rest) > 0 {
			s.queueReceived(rest)
		}
	default:
		s.queueReceived(msg)
	}
}

// mustWait reports whether commands must wait for a connect, for commands in progress or for a held effect.
func (s *Session) mustWait() bool {
	return s.state == stateAuthenticating || int(s.inflight) >= s.cfg.CommandLimit || s.pending.holds()
}

// yields reports whether rest waits for other clients, unless it is too large to be kept.
func (s *Session) yields(rest []byte) bool {
	return *s.env.Allowance() <= 0 && len(rest) <= s.cfg.PendingMaxSize
}

// queueReceived keeps the rest of a frame. The transport stops reading meanwhile; the bytes that it had read before are
// bounded, too.
func (s *Session) queueReceived(rest []byte) {
	if s.pending == nil {
		s.pending = new(pending)
	}
	p := s.pending
	if p.Size()+len(rest) > s.cfg.PendingMaxSize {
		if s.mustWait() {
			s.env.Refused(observe.LimitPending, "")
			s.Close(protocol.DisconnectTooManyRequests)
			return
		}
		// The client only waits for its turn, which is no fault of its own: all that it sent is dispatched now.
		*s.env.Allowance() = math.MaxInt
		s.dispatchWaiting()
		s.Receive(rest)
		return
	}
	p.Add(rest)
	if !s.paused {
		s.paused = true
		s.conn.Pause(true)
	}
	if !s.mustWait() {
		s.ask()
	}
}

func (s *Session) ask() {
	if p := s.pending; !p.asked {
		p.asked = true
		s.env.Again()
	}
}

// Resume follows Env.Again some time later.
func (s *Session) Resume() {
	if s.pending != nil {
		s.pending.asked = false
		s.dispatchWaiting()
	}
}

func (s *Session) dispatchWaiting() {
	p := s.pending
	if p == nil || !s.takeHeld() {
		return
	}
	for frame := p.First(); frame != nil; frame = p.First() {
		if s.mustWait() {
			return
		}
		if s.yields(frame) {
			s.ask()
			return
		}
		rest := s.process(frame)
		if s.state == stateClosed {
			return
		}
		p.Take(len(frame) - len(rest))
	}
	if p.holds() {
		return
	}
	s.pending = nil
	switch {
	case p.lost != nil:
		s.Close(*p.lost)
	case s.paused:
		s.paused = false
		s.conn.Pause(false)
	}
}

// process decodes and dispatches the commands of a frame, and returns the rest that must wait.
func (s *Session) process(frame []byte) (rest []byte) {
	pool, allowance := s.env.Pool(), s.env.Allowance()
	cmd := pool.TakeCommand()
	defer pool.PutCommand(cmd) // effects keep its requests, but never cmd itself
	for {
		rest, err := s.via.Codec.DecodeCommand(frame, cmd)
		if err != nil {
			s.env.Counts().Malformed(s, frame)
			s.refuse(0, "", refusal.Because(protocol.DisconnectBadRequest, "", "the message is malformed: "+err.Error()))
			return nil
		}
		*allowance -= 1 + (len(frame)-len(rest))/commandSize
		s.env.Counts().Received(s, cmd, frame[:len(frame)-len(rest)])
		s.cfg.Taps.Received(s.env, s, cmd)
		s.run(s.dispatch(cmd))
		if len(rest) == 0 || s.state == stateClosed {
			return nil
		}
		if frame = rest; s.mustWait() || s.yields(frame) {
			return frame
		}
	}
}

// commandSize is the bytes of a command that count as one more command.
const commandSize = 512

// Lost says that the connection has ended without a Close. The session first dispatches the commands that wait, whose
// replies go nowhere. If none waits, it ends at once, also during a connect.
func (s *Session) Lost(d protocol.Disconnect) {
	if s.state == stateClosed || s.pending == nil {
		s.Close(d)
		return
	}
	if s.pending.lost != nil {
		return
	}
	s.pending.lost = &d
	s.stopSending()
	s.askForHeld()
	if s.state == stateConnected {
		s.env.Gone()
	}
}

func (s *Session) stopSending() {
	s.out.Drop(s.env.Pool())
	s.conn = connkind.Nowhere{}
}

func (s *Session) leaving() bool { return s.pending != nil && s.pending.lost != nil }

// Env of the session.
func (s *Session) Env() Env { return s.env }

// Of returns s: see Subscription.Of.
func (s *Session) Of() *Session { return s }

// Of leads from a task or subscriber that panicked to its client.
func (b *Subscription) Of() *Session { return b.s }
