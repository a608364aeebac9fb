// Package endpoint is the server's end of an HTTP stream, without I/O and clock: the body of an answer that goes on
// until the server or the client ends it. Package driver brings bytes and ticks, and carries out the steps.
package endpoint

import (
	"fmt"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/httpstream/internal/framing"
)

// Config of endpoints.
type Config struct {
	// OneWay tells that messages are bare pushes.
	OneWay   bool
	Timeouts transport.Timeouts
}

// maxSurplus is how many bytes a client may send after its request; they are ignored.
const maxSurplus = 64 << 10

var errSurplus = fmt.Errorf("httpstream: %w: the client sent more than %d bytes behind its request", protocol.DisconnectBadRequest, maxSurplus)

// Endpoint implements transport.Endpoint. It holds no memory.
type Endpoint struct {
	cfg     *Config
	framer  *framing.Framer
	surplus uint32 // bytes that came after the request; used by Next
	ended   bool
}

// New returns an endpoint.
func New(cfg *Config, f *framing.Framer) Endpoint { return Endpoint{cfg: cfg, framer: f} }

func (e *Endpoint) Next(data []byte) (found transport.Found, message, rest []byte) {
	if e.surplus += uint32(len(data)); e.surplus > maxSurplus {
		e.surplus = maxSurplus
		return transport.FoundControl, nil, nil
	}
	return transport.FoundNothing, nil, nil
}

// Control ends the connection of a client that sends too much.
func (e *Endpoint) Control() transport.Step { return e.Fail(protocol.DisconnectBadRequest, errSurplus) }

func (*Endpoint) Rest() transport.Step           { return transport.Step{} }
func (*Endpoint) Begin() transport.Step          { return transport.Step{} }
func (*Endpoint) Tick(bool, bool) transport.Step { return transport.Step{} }
func (*Endpoint) Release()                       {}

// Close ends the body; the core has written the disconnect push. With code 0 the client ends it, because a message has
// told it so.
func (e *Endpoint) Close(d protocol.Disconnect) transport.Step {
	if d.Code == 0 {
		return transport.Step{End: transport.EndAwait, Cause: d}
	}
	return e.end(nil, d)
}

// Overdue ends the body of a client that stayed after an error for its connect command.
func (e *Endpoint) Overdue() transport.Step {
	return e.Fail(protocol.DisconnectStale, protocol.DisconnectStale)
}

// Fail writes the disconnect push itself.
func (e *Endpoint) Fail(d protocol.Disconnect, cause error) transport.Step {
	push := &protocol.Push{Disconnect: &d}
	c, buf := codec.For(e.framer.Encoding()), make([]byte, e.framer.Headroom(), 128)
	var err error
	if e.cfg.OneWay {
		buf, err = c.AppendPush(buf, push)
	} else {
		buf, err = c.AppendReply(buf, &protocol.Reply{Push: push})
	}
	if err != nil { // it has no payload, so there is none
		return e.end(nil, cause)
	}
	return e.end(e.framer.Frame(buf), cause)
}

// end ends the body after a last frame, once.
func (e *Endpoint) end(frame []byte, cause error) transport.Step {
	s := transport.Step{End: transport.EndLinger, Cause: cause}
	if !e.ended {
		e.ended = true
		s.Write = append(frame, e.framer.End()...)
	}
	return s
}

func (e *Endpoint) FrameSize(b []byte) int { return e.framer.FrameSize(b) }

func (e *Endpoint) Timeouts() transport.Timeouts { return e.cfg.Timeouts }
