package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/driver"
)

const (
	maxLine  = 64 << 10        // of a client
	patience = 5 * time.Second // for a client that takes nothing, or does not close
)

// lines is the framer of all connections: they share the bytes of a publication.
var lines = new(framer)

// framer ends each frame with a line break. Messages in a frame have line breaks between them already.
type framer struct{ _ byte }

func (*framer) Encoding() protocol.Encoding { return protocol.JSON }
func (*framer) Headroom() int               { return 0 }
func (*framer) Costly() bool                { return false }
func (*framer) Frame(buf []byte) []byte     { return append(buf, '\n') }

// Serve gives the connections of a listener to a node, until the listener is closed.
func Serve(ctx context.Context, ln net.Listener, node transport.Acceptor) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		info := transport.Info{Name: "lines", Framer: lines, DisconnectPush: true}
		driver.Serve(ctx, node, conn, new(endpoint), info, nil)
	}
}

type endpoint struct {
	part []byte // the beginning of a line
}

var errLong = errors.New("a line is too long")

// Next finds the first line.
func (e *endpoint) Next(data []byte) (found transport.Found, message, rest []byte) {
	line, rest, whole := bytes.Cut(data, []byte("\n"))
	if len(e.part)+len(line) > maxLine {
		return transport.FoundControl, nil, nil
	}
	if len(e.part) > 0 || !whole {
		e.part = append(e.part, line...) // a copy: data is not ours after Rest
		line = e.part
	}
	if !whole {
		return transport.FoundNothing, nil, nil
	}
	e.part = e.part[:0]
	return transport.FoundMessage, line, rest
}

// Control is called because a line is too long.
func (e *endpoint) Control() transport.Step { return e.Fail(protocol.DisconnectBadRequest, errLong) }

// Rest frees the memory of an idle connection.
func (e *endpoint) Rest() transport.Step {
	if len(e.part) == 0 {
		e.part = nil
	}
	return transport.Step{}
}

func (*endpoint) Begin() transport.Step          { return transport.Step{} }
func (*endpoint) Tick(bool, bool) transport.Step { return transport.Step{} }

// Close needs no last bytes, because the node has written a disconnect push.
func (*endpoint) Close(d protocol.Disconnect) transport.Step {
	if d.Code == 0 { // the client has got an error, and closes first
		return transport.Step{End: transport.EndAwait, Cause: d}
	}
	return transport.Step{End: transport.EndLinger, Cause: d}
}

func (*endpoint) Overdue() transport.Step { return transport.Step{End: transport.EndCut} }

// Fail tells the client a disconnect.
func (*endpoint) Fail(d protocol.Disconnect, cause error) transport.Step {
	s := transport.Step{End: transport.EndLinger, Cause: cause}
	push := &protocol.Reply{Push: &protocol.Push{Disconnect: &d}}
	if line, err := codec.For(protocol.JSON).AppendReply(nil, push); err == nil {
		s.Write = lines.Frame(line)
	}
	return s
}

func (*endpoint) FrameSize(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	return len(b)
}

func (*endpoint) Timeouts() transport.Timeouts {
	return transport.Timeouts{Write: patience, Await: patience, Close: patience}
}

func (*endpoint) Release() {}
