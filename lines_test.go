package gyro_test

import (
	"bytes"
	"context"
	"sync"
	"testing/synctest"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// lines is a transport whose messages are lines of a text: all that it takes to make one.
// What kind of connection it is, its transport.Info says.
type lines struct {
	mu    sync.Mutex
	text  []byte
	shut  bool // Write takes nothing now
	ended bool // Close was called
	gone  chan error
	peer  transport.Peer
}

// oneWay and emulated are two kinds of it.
var (
	oneWay   = transport.Info{Name: "lines", Framer: lineBreaks, Mode: transport.OneWay, DisconnectPush: true}
	emulated = transport.Info{Name: "lines", Framer: lineBreaks, Mode: transport.Emulated, DisconnectPush: true}
)

// openOneWay opens a connection with a connect request, which is JSON.
func openOneWay(ctx context.Context, a transport.Acceptor, request string) (*lines, error) {
	info := oneWay
	info.Connect = new(protocol.ConnectRequest)
	if err := codec.DecodeConnect(protocol.JSON, []byte(request), info.Connect); err != nil {
		return nil, err
	}
	return openLines(ctx, a, info)
}

func openLines(ctx context.Context, a transport.Acceptor, info transport.Info) (l *lines, err error) {
	l = &lines{gone: make(chan error, 2)}
	if l.peer, err = a.Accept(ctx, l, info); err != nil {
		return nil, err
	}
	go func() { l.peer.Closed(<-l.gone) }()
	return l, nil
}

// hangUp is the client's end.
func (l *lines) hangUp() { l.gone <- nil }

// read returns what the client got since it read last, once nothing more comes.
func (l *lines) read() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := string(l.text)
	l.text = nil
	return text
}

func (l *lines) Write(frames [][]byte) (n int, err error) {
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

func (l *lines) Close(_ protocol.Disconnect, frames [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.text = append(l.text, bytes.Join(frames, nil)...)
	l.gone <- nil
}

func (l *lines) Pause(bool) {} // nothing is read

// lineBreaks ends each message with a line break; in a frame of several, the others are
// between them.
var lineBreaks = new(lineFramer)

type lineFramer struct{ _ int }

func (*lineFramer) Encoding() protocol.Encoding { return protocol.JSON }
func (*lineFramer) Headroom() int               { return 0 }
func (*lineFramer) Costly() bool                { return false }
func (*lineFramer) Frame(buf []byte) []byte     { return append(buf, '\n') }
