package session

import (
	"math"

	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
)

// pending holds received commands that wait: for a connect, for commands in
// progress, or for other clients.
type pending struct {
	backlog
	// asked is set if Resume was asked for, by Env.Again.
	asked bool
	// lost is the end of the connection meanwhile; nil if it has not ended.
	lost *protocol.Disconnect
}

// Receive takes one transport message: one or more commands. It does not keep msg. It
// ignores messages of an emulated client after the end of its connection.
func (s *Session) Receive(msg []byte) {
	switch {
	case s.state == stateClosed, s.leaving():
	case s.via.Mode == transport.OneWay:
		s.takeConnect(msg)
	case s.pending == nil && !s.mustWait() && !s.yields(msg):
		if rest := s.process(msg); len(rest) > 0 {
			s.keepReceived(rest)
		}
	default:
		s.keepReceived(msg)
	}
}

// mustWait reports whether commands must wait for a connect or for commands in progress.
func (s *Session) mustWait() bool {
	return s.state == stateAuthenticating || int(s.inflight) >= s.cfg.CommandLimit
}

// yields reports whether rest waits for other clients. A rest that is too large to be kept does
// not wait.
func (s *Session) yields(rest []byte) bool {
	return *s.env.Allowance() <= 0 && len(rest) <= s.cfg.PendingMaxSize
}

// keepReceived keeps the rest of a frame until it can be dispatched. The transport stops
// reading meanwhile; the bytes that it had read before are bounded, too.
func (s *Session) keepReceived(rest []byte) {
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
		// The client only waits for its turn among others, which is no fault of its own: all
		// that it sent is dispatched now.
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

// ask makes the owner call Resume later.
func (s *Session) ask() {
	if p := s.pending; !p.asked {
		p.asked = true
		s.env.Again()
	}
}

// Resume is called some time after Env.Again.
func (s *Session) Resume() {
	if s.pending != nil {
		s.pending.asked = false
		s.dispatchWaiting()
	}
}

// dispatchWaiting dispatches the commands that wait, until some must wait again.
func (s *Session) dispatchWaiting() {
	p := s.pending
	if p == nil {
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
	s.pending = nil
	switch {
	case p.lost != nil:
		s.Close(*p.lost)
	case s.paused:
		s.paused = false
		s.conn.Pause(false)
	}
}

// process decodes and dispatches the commands of a frame, one at a time, and returns
// the rest that must wait.
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

// commandSize is how many bytes of a command count as one more command.
const commandSize = 512

// Lost says that the connection has ended without a Close. The session still dispatches
// the commands that wait, whose replies go nowhere, and ends then. If none waits, it ends
// at once, also when a connect is in progress.
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
	if s.state == stateConnected {
		s.env.Gone()
	}
}

// stopSending drops all that waits for the client, and all that is sent to it from now on.
func (s *Session) stopSending() {
	s.out.Drop(s.env.Pool())
	s.conn = connkind.Nowhere{}
}

// leaving reports whether the client has gone and the session dispatches its earlier commands.
func (s *Session) leaving() bool { return s.pending != nil && s.pending.lost != nil }

// Env of the session.
func (s *Session) Env() Env { return s.env }

// Of returns s: see Subscription.Of.
func (s *Session) Of() *Session { return s }

// Of returns the session that has the subscription. Sessions and subscriptions have the
// method so that the owner finds the client when one of them panics.
func (b *Subscription) Of() *Session { return b.s }
