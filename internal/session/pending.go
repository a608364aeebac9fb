package session

import (
	"math"

	"github.com/gyrohq/gyro/internal/via"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// pending is what was received and has to wait: for a connect, for commands in
// progress, or for other clients. Each byte is copied once, however many commands are
// dispatched one at a time.
type pending struct {
	frames [][]byte // of the first, what is left
	size   int      // of all
	// asked: the owner was asked for Resume.
	asked bool
	// lost is how the connection ended meanwhile; nil if it did not.
	lost *protocol.Disconnect
}

// take removes n bytes of the first frame.
func (p *pending) take(n int) {
	p.size -= n
	if p.frames[0] = p.frames[0][n:]; len(p.frames[0]) == 0 {
		p.frames[0] = nil
		p.frames = p.frames[1:]
	}
}

// Receive takes one transport message: one or more commands. It does not keep
// msg. What an emulated client still sends behind the end of its connection is ignored.
func (s *Session) Receive(msg []byte) {
	switch {
	case s.state == stateClosed, s.leaving():
	case s.via.Mode == transport.OneWay:
		s.receiveConnect(msg)
	case s.pending == nil && !s.holding() && !s.yields(msg):
		if rest := s.process(msg); len(rest) > 0 {
			s.hold(rest)
		}
	default:
		s.hold(msg)
	}
}

// holding tells whether commands have to wait for others.
func (s *Session) holding() bool {
	return s.state == stateAuthenticating || int(s.inflight) >= s.cfg.CommandLimit
}

// yields tells whether rest has to wait for other clients. What is too large to wait
// does not.
func (s *Session) yields(rest []byte) bool {
	return *s.env.Allowance() <= 0 && len(rest) <= s.cfg.PendingMaxSize
}

// hold keeps the rest of a frame until it can be dispatched. The transport stops
// reading meanwhile; what it had read before is bounded too.
func (s *Session) hold(rest []byte) {
	if s.pending == nil {
		s.pending = new(pending)
	}
	p := s.pending
	if p.size+len(rest) > s.cfg.PendingMaxSize {
		if s.holding() {
			s.env.Refused(observe.LimitPending, "")
			s.Disconnect(protocol.DisconnectTooManyRequests)
			return
		}
		// It waits for other clients only, which must not cost it the connection.
		*s.env.Allowance() = math.MaxInt
		s.resume()
		s.Receive(rest)
		return
	}
	p.size += len(rest)
	p.frames = append(p.frames, append([]byte(nil), rest...))
	if !s.paused {
		s.paused = true
		s.conn.Pause(true)
	}
	if !s.holding() {
		s.ask()
	}
}

// ask has the owner call Resume.
func (s *Session) ask() {
	if p := s.pending; !p.asked {
		p.asked = true
		s.env.Again()
	}
}

// Resume is what Env.Again asks for.
func (s *Session) Resume() {
	if s.pending != nil {
		s.pending.asked = false
		s.resume()
	}
}

// resume dispatches what waits, as far as it may.
func (s *Session) resume() {
	p := s.pending
	if p == nil {
		return
	}
	for len(p.frames) > 0 {
		if s.holding() {
			return
		}
		frame := p.frames[0]
		if s.yields(frame) {
			s.ask()
			return
		}
		rest := s.process(frame)
		if s.state == stateClosed {
			return
		}
		p.take(len(frame) - len(rest))
	}
	s.pending = nil
	switch {
	case p.lost != nil:
		s.Disconnect(*p.lost)
	case s.paused:
		s.paused = false
		s.conn.Pause(false)
	}
}

// process decodes and dispatches the commands of a frame, one at a time, and returns
// what has to wait.
func (s *Session) process(frame []byte) (rest []byte) {
	pool, allowance := s.env.Pool(), s.env.Allowance()
	cmd := pool.TakeCommand()
	defer pool.PutCommand(cmd) // nobody keeps a command, only its parts
	for {
		rest, err := s.via.Codec.DecodeCommand(frame, cmd)
		if err != nil {
			s.Disconnect(protocol.DisconnectBadRequest)
			return nil
		}
		*allowance -= 1 + (len(frame)-len(rest))/commandSize
		s.env.Received(cmd)
		s.dispatch(cmd)
		if len(rest) == 0 || s.state == stateClosed {
			return nil
		}
		if frame = rest; s.holding() || s.yields(frame) {
			return frame
		}
	}
}

// commandSize is the number of bytes of a command that cost as much as a command.
const commandSize = 512

// Lost tells that the connection has ended, but not by Disconnect. What the client
// sent before is done first, as if the end had come behind it: nobody hears of the
// answers. A connect that nothing waits for is given up.
func (s *Session) Lost(d protocol.Disconnect) {
	if s.state == stateClosed || s.pending == nil {
		s.Disconnect(d)
		return
	}
	if s.pending.lost != nil {
		return
	}
	s.pending.lost = &d
	s.deafen()
	if s.state == stateConnected {
		s.env.Gone()
	}
}

// deafen has everything forgotten that is sent to the client.
func (s *Session) deafen() {
	s.out.Drop(s.env.Pool())
	s.conn = via.Nowhere{}
}

// leaving tells whether the client has gone, and what it sent before is being done.
func (s *Session) leaving() bool { return s.pending != nil && s.pending.lost != nil }

// Ended tells whether the session has ended.
func (s *Session) Ended() bool { return s.state == stateClosed }

// Env of the session.
func (s *Session) Env() Env { return s.env }

// Of is s itself: see Subscription.Of.
func (s *Session) Of() *Session { return s }

// Of is the session that has the subscription.
func (b *Subscription) Of() *Session { return b.s }
