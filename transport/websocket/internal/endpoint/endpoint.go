// Package endpoint is the server's end of a WebSocket connection (RFC 6455), without I/O and clock: it parses the bytes
// of a client, handles pings in both directions and the close handshake, and answers violations. Package driver brings
// bytes and ticks, and carries out the steps.
package endpoint

import (
	"math"
	"sync"
	"time"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/netio"
	"github.com/gyrohq/gyro/transport/websocket/internal/rfc6455"
)

// Config of endpoints. All fields are set, unless they say otherwise.
type Config struct {
	// MessageSizeLimit is the most bytes of a message on the wire, InflatedSizeLimit
	// the most after decompression.
	MessageSizeLimit, InflatedSizeLimit int
	// PingInterval is the time between native pings, PongTimeout the time to answer one.
	PingInterval, PongTimeout time.Duration
	Timeouts                  transport.Timeouts
	// Totals counts the Close frames that the server sends first, under the name Transport, which also begins the names
	// of options in refusals. It may be nil.
	Totals    *observe.Totals
	Transport string
	// CutSilent: a client that does not answer a native ping gets no Close frame.
	CutSilent          bool
	NoClosingHandshake bool
}

// Endpoint implements transport.Endpoint. Between two reads it holds memory only for an incomplete message.
type Endpoint struct {
	cfg    *Config
	reader *reader // nil between two reads and two messages

	compress, nativePing bool

	pinged    bool // a native ping is unanswered
	closing   bool
	closeSent bool
}

type reader struct {
	parser    rfc6455.Parser
	event     rfc6455.Event       // the last event, unless there is a violation
	violation *rfc6455.CloseError // nil: none
	ping      []byte              // the last ping that is not answered
	inflated  *netio.Buffer       // the last message, if it was compressed
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// New returns an endpoint. compress: permessage-deflate was negotiated.
func New(cfg *Config, compress, nativePing bool) Endpoint {
	return Endpoint{cfg: cfg, compress: compress, nativePing: nativePing}
}

func (e *Endpoint) Next(data []byte) (found transport.Found, message, rest []byte) {
	r := e.reader
	if r == nil {
		r = readers.Get().(*reader)
		r.parser.Limit, r.parser.Compress = e.cfg.MessageSizeLimit, e.compress
		e.reader = r
	}
	r.inflated.Free()
	r.inflated = nil
	for {
		r.event, data, r.violation = r.parser.Next(data)
		switch {
		case r.violation != nil:
			return transport.FoundControl, nil, nil
		case r.event.Kind == rfc6455.EventNone:
			return transport.FoundNothing, nil, nil
		case r.event.Kind == rfc6455.EventPing:
			r.ping = r.event.Payload[:len(r.event.Payload):len(r.event.Payload)]
			continue
		case r.event.Kind != rfc6455.EventMessage:
			return transport.FoundControl, nil, data
		case !r.event.Compressed:
			return transport.FoundMessage, r.event.Payload, data
		}
		if r.inflated, r.violation = r.event.Inflate(e.cfg.InflatedSizeLimit); r.violation != nil {
			return transport.FoundControl, nil, nil
		}
		return transport.FoundMessage, r.inflated.B, data
	}
}

func (e *Endpoint) Control() transport.Step {
	r := e.reader
	switch {
	case r.violation != nil:
		return e.fail(r.violation.Code, r.violation.Reason, e.cfg.because(r.violation))
	case r.event.Kind == rfc6455.EventClose:
		return e.closedByClient(&r.event)
	case !e.pinged: // a pong without a ping
		return transport.Step{}
	}
	e.pinged = false
	return transport.Step{Tick: e.cfg.PingInterval}
}

// because returns the cause of an end by a violation, with the option that would allow the message.
func (c *Config) because(v *rfc6455.CloseError) error {
	option := ""
	switch v {
	case rfc6455.ErrTooBig:
		option = c.Transport + ".Config.MessageSizeLimit"
	case rfc6455.ErrTooBigInflated:
		option = c.Transport + ".Config.DecompressedMessageSizeLimit"
	}
	return refusal.Because(v, option, v.Reason)
}

// Rest answers only the last ping of a read, which suffices (RFC 6455 section 5.5.3).
func (e *Endpoint) Rest() (s transport.Step) {
	r := e.reader
	if r == nil {
		return s
	}
	if r.ping != nil {
		s.Write = rfc6455.ControlFrame(rfc6455.OpPong, r.ping)
		r.ping = nil
	}
	if r.inflated == nil && r.parser.AtRest() {
		e.Release()
	}
	return s
}

func (e *Endpoint) Release() {
	if r := e.reader; r != nil {
		e.reader = nil
		r.parser.Release()
		r.inflated.Free()
		*r = reader{}
		readers.Put(r)
	}
}

func (e *Endpoint) Begin() transport.Step {
	if !e.nativePing {
		return transport.Step{}
	}
	return transport.Step{Tick: e.cfg.PingInterval}
}

var pingFrame = rfc6455.ControlFrame(rfc6455.OpPing, nil)

// Tick sends a ping, or ends the connection if the last one was not answered: not after a pause, when the pong may be
// unread. It sends no ping during congestion, which has a timeout of its own.
func (e *Endpoint) Tick(congested, wasPaused bool) transport.Step {
	s := transport.Step{Tick: e.cfg.PongTimeout}
	switch {
	case e.pinged && !wasPaused && e.cfg.CutSilent:
		return transport.Step{End: transport.EndCut, Cause: protocol.DisconnectNoPong}
	case e.pinged && !wasPaused:
		d := protocol.DisconnectNoPong
		return e.Fail(d, d)
	case !e.pinged && !congested:
		e.pinged = true
		s.Write = pingFrame
	}
	return s
}

// Close sends a Close frame, but none with code 0: a message has told the client to close first.
func (e *Endpoint) Close(d protocol.Disconnect) transport.Step {
	s := transport.Step{End: transport.EndAwait, Cause: d}
	e.closing = true
	if e.cfg.NoClosingHandshake {
		s.End = transport.EndLinger
		return s
	}
	if d.Code != 0 {
		s.Write = e.closeFrame(wireCode(d.Code), d.Reason)
	}
	return s
}

func (*Endpoint) Overdue() transport.Step { return transport.Step{End: transport.EndCut} }

func (e *Endpoint) Fail(d protocol.Disconnect, cause error) transport.Step {
	return e.fail(wireCode(d.Code), d.Reason, cause)
}

func (e *Endpoint) fail(code uint16, reason string, cause error) transport.Step {
	s := transport.Step{End: transport.EndLinger, Cause: cause}
	if !e.closing {
		e.closing = true
		s.Write = e.closeFrame(code, reason)
	}
	return s
}

// closedByClient answers the client's Close frame, unless that is an answer itself.
func (e *Endpoint) closedByClient(ev *rfc6455.Event) transport.Step {
	s := transport.Step{End: transport.EndCut, Cause: ev.CloseError()}
	e.closing = true
	if !e.closeSent {
		e.closeSent = true
		s.Write = rfc6455.CloseFrame(ev.Code, "")
	}
	return s
}

func (e *Endpoint) closeFrame(code uint16, reason string) []byte {
	e.closeSent = true
	e.cfg.Totals.AddClose(observe.Close{Transport: e.cfg.Transport, Code: code})
	return rfc6455.CloseFrame(code, reason)
}

// wireCode returns the code for a Close frame; 0, no status, for codes of applications with more than 16 bits.
func wireCode(code uint32) uint16 {
	if code > math.MaxUint16 {
		return 0
	}
	return uint16(code)
}

func (*Endpoint) FrameSize(b []byte) int { return rfc6455.FrameSize(b) }

func (e *Endpoint) Timeouts() transport.Timeouts { return e.cfg.Timeouts }
