package webtransport

import (
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

// endpoint implements transport.Endpoint for the stream of a session. It holds memory only while a
// message is incomplete.
type endpoint struct {
	cfg     *settings
	framer  *framer
	link    *link
	partial *netio.Buffer // the beginning of a message; nil if there is none
	message *netio.Buffer // the message that Next returned, if it came in parts
	wrong   error         // the violation that Next found instead of a message
	ended   bool          // the end of the connection has begun
}

// settings are common to the connections of a handler.
type settings struct {
	limit    int // of a message, bytes
	timeouts transport.Timeouts
}

// Next returns all complete messages at the beginning of data as one message for the peer.
func (e *endpoint) Next(data []byte) (found transport.Found, message, rest []byte) {
	e.message.Free()
	e.message = nil
	if e.partial == nil {
		var size int
		if size, e.wrong = e.framer.whole(data, e.cfg.limit); e.wrong != nil {
			return transport.FoundControl, nil, nil
		}
		if size > 0 {
			return transport.FoundMessage, data[:size:size], data[size:]
		}
	}
	for len(data) > 0 {
		var begun []byte
		if e.partial != nil {
			begun = e.partial.B
		}
		n := e.framer.missing(begun, data)
		e.partial = e.partial.Grow(n)
		e.partial.B = append(e.partial.B, data[:n]...)
		data = data[n:]
		var complete bool
		if complete, e.wrong = e.framer.completes(e.partial.B, e.cfg.limit); e.wrong != nil {
			return transport.FoundControl, nil, nil
		}
		if complete {
			e.message, e.partial = e.partial, nil
			return transport.FoundMessage, e.message.B, data
		}
	}
	return transport.FoundNothing, nil, nil
}

// Control ends the connection because of the violation that Next has found.
func (e *endpoint) Control() transport.Step {
	d, option := protocol.DisconnectBadRequest, ""
	if errors.Is(e.wrong, errTooLarge) {
		d.Reason, option = "message size limit exceeded", "webtransport.Config.MessageSizeLimit"
	}
	return e.Fail(d, refusal.Because(d, option, e.wrong.Error()))
}

func (e *endpoint) Rest() transport.Step {
	e.message.Free()
	e.message = nil
	return transport.Step{}
}

func (e *endpoint) Release() {
	e.Rest()
	e.partial.Free()
	e.partial = nil
}

func (*endpoint) Begin() transport.Step          { return transport.Step{} }
func (*endpoint) Tick(_, _ bool) transport.Step  { return transport.Step{} }
func (e *endpoint) Timeouts() transport.Timeouts { return e.cfg.timeouts }

// Close ends the connection. The core's last frame has told the client. Code 0 leaves it to the
// client to close first.
func (e *endpoint) Close(d protocol.Disconnect) transport.Step {
	e.ended, e.link.told = true, d
	if d.Code == 0 {
		return transport.Step{End: transport.EndAwait, Cause: d}
	}
	return transport.Step{End: transport.EndLinger, Cause: d}
}

// Overdue ends the session of a client that did not.
func (*endpoint) Overdue() transport.Step { return transport.Step{End: transport.EndCut} }

// Fail ends the connection with a disconnect push, unless the end has begun already.
func (e *endpoint) Fail(d protocol.Disconnect, cause error) transport.Step {
	s := transport.Step{End: transport.EndLinger, Cause: cause}
	if !e.ended {
		e.ended, e.link.told = true, d
		s.Write = e.framer.disconnect(d)
	}
	return s
}

func (e *endpoint) FrameSize(b []byte) int {
	if n, _ := e.framer.first(b, len(b)); n > 0 {
		return n
	}
	return len(b)
}

// disconnect returns the frame of a disconnect push.
func (f *framer) disconnect(d protocol.Disconnect) []byte {
	buf, err := codec.For(f.encoding).AppendReply(nil, &protocol.Reply{Push: &protocol.Push{Disconnect: &d}})
	if err != nil {
		return nil // it has no payload that could be wrong
	}
	return f.Frame(buf)
}
