package webtransport

import (
	"errors"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
)

type endpoint struct {
	cfg     *settings
	framer  *framer
	link    *link
	partial *netio.Buffer // the beginning of a message; nil if there is none
	message *netio.Buffer // the message that Next returned, if it came in parts
	wrong   error         // the violation that Next found instead of a message
	ended   bool
}

type settings struct {
	limit    int // of a message, bytes
	timeouts transport.Timeouts
}

// Next returns all complete messages in data as one.
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

// Close ends the connection. The core's last frame has told the client. With code 0 the client closes first.
func (e *endpoint) Close(d protocol.Disconnect) transport.Step {
	e.ended, e.link.told = true, d
	if d.Code == 0 {
		return transport.Step{End: transport.EndAwait, Cause: d}
	}
	return transport.Step{End: transport.EndLinger, Cause: d}
}

func (*endpoint) Overdue() transport.Step { return transport.Step{End: transport.EndCut} }

// Fail writes a disconnect push, unless the end has begun.
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

func (f *framer) disconnect(d protocol.Disconnect) []byte {
	buf, err := codec.For(f.encoding).AppendReply(nil, &protocol.Reply{Push: &protocol.Push{Disconnect: &d}})
	if err != nil {
		return nil // it has no payload that could be wrong
	}
	return f.Frame(buf)
}
