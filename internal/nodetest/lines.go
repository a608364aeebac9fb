package nodetest

import (
	"bytes"
	"context"
	"sync"
	"testing/synctest"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// Lines is a transport whose messages are lines of a text, of the kind that its transport.Info says.
type Lines struct {
	Peer transport.Peer

	mu    sync.Mutex
	text  []byte
	shut  bool // Write takes nothing now
	ended bool // Close was called
	gone  chan error
}

var (
	OneWay   = transport.Info{Name: "lines", Framer: lineBreaks, Mode: transport.OneWay, DisconnectPush: true}
	Emulated = transport.Info{Name: "lines", Framer: lineBreaks, Mode: transport.Emulated, DisconnectPush: true}
)

// OpenOneWay opens a connection with a connect request, which is JSON.
func OpenOneWay(ctx context.Context, a transport.Acceptor, request string) (*Lines, error) {
	info := OneWay
	info.Connect = new(protocol.ConnectRequest)
	if err := codec.DecodeConnect(protocol.JSON, []byte(request), info.Connect); err != nil {
		return nil, err
	}
	return OpenLines(ctx, a, info)
}

// OpenLines opens a connection of the kind that info says.
func OpenLines(ctx context.Context, a transport.Acceptor, info transport.Info) (l *Lines, err error) {
	l = &Lines{gone: make(chan error, 2)}
	if l.Peer, err = a.Accept(ctx, l, info); err != nil {
		return nil, err
	}
	go func() { l.Peer.Closed(<-l.gone) }()
	return l, nil
}

// HangUp is the client's end.
func (l *Lines) HangUp() { l.gone <- nil }

// Shut makes the connection take nothing, until it is called again with false. Then the test calls Peer.Writable.
func (l *Lines) Shut(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = on
}

// Read returns the lines that the client got since the last call, once nothing more comes, in virtual time.
func (l *Lines) Read() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}

// Write implements transport.Conn.
func (l *Lines) Write(frames [][]byte) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range frames {
		if !l.shut {
			l.text = append(l.text, f...)
			n += len(f)
		}
	}
	return n, nil
}

// Close implements transport.Conn.
func (l *Lines) Close(_ protocol.Disconnect, frames [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.text = append(l.text, bytes.Join(frames, nil)...)
	l.gone <- nil
}

// Pause implements transport.Conn. Nothing is read.
func (l *Lines) Pause(bool) {}

// lineBreaks ends each message with a line break; in a frame of several, the others are between them.
var lineBreaks = new(lineFramer)

type lineFramer struct{ _ int }

func (*lineFramer) Encoding() protocol.Encoding { return protocol.JSON }
func (*lineFramer) Headroom() int               { return 0 }
func (*lineFramer) Costly() bool                { return false }
func (*lineFramer) Frame(buf []byte) []byte     { return append(buf, '\n') }
