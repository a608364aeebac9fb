package bench

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// fake is a server of the protocol with one node's worth of faults.
type fake struct {
	http  *httptest.Server
	codec codec.Codec

	// deliver returns what a subscriber gets instead of a publication, if set. It is
	// called in the order of publications, for every subscriber; n counts from 0.
	deliver func(n int, pub *protocol.Publication) []*protocol.Publication
	// recover changes the answer to a client that recovers, if set.
	recover func(res *protocol.SubscribeResult)
	// answer replaces the reply to a command, if it returns one.
	answer func(cmd *protocol.Command) *protocol.Reply
	// end closes the connection of a subscriber before it gets publication n.
	end func(n int) bool

	mu     sync.Mutex
	conns  map[*fakeConn]bool
	stream map[string][]*protocol.Publication
}

type fakeConn struct {
	server  *fake
	conn    io.ReadWriteCloser
	channel string
	got     int
	mu      sync.Mutex // orders writes
}

func startFake(t *testing.T, e protocol.Encoding) *fake {
	t.Helper()
	f := &fake{codec: codec.For(e), conns: make(map[*fakeConn]bool), stream: make(map[string][]*protocol.Publication)}
	f.http = httptest.NewServer(f)
	t.Cleanup(f.http.Close)
	return f
}

func (f *fake) target() Target {
	return testTarget("ws"+strings.TrimPrefix(f.http.URL, "http"), f.codec.Encoding())
}

// losing is target for a server that loses messages: what comes later than the drain counts as lost.
func (f *fake) losing() Target {
	return withTarget(f.target(), func(t *Target) { t.Drain = time.Second })
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := ws.HTTPUpgrader{Protocol: func(string) bool { return true }}
	conn, _, _, err := u.Upgrade(r, w)
	if err != nil {
		return
	}
	c := &fakeConn{server: f, conn: conn}
	defer conn.Close()
	defer f.forget(c)
	for {
		frame, _, err := wsutil.ReadClientData(conn)
		if err != nil {
			return
		}
		for len(frame) > 0 {
			var cmd protocol.Command
			if frame, err = f.codec.DecodeCommand(frame, &cmd); err != nil {
				return
			}
			f.command(c, &cmd)
		}
	}
}

func (f *fake) forget(c *fakeConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

func (f *fake) command(c *fakeConn, cmd *protocol.Command) {
	if f.answer != nil {
		if r := f.answer(cmd); r != nil {
			r.ID = cmd.ID
			c.send(r)
			return
		}
	}
	r := &protocol.Reply{ID: cmd.ID}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case cmd.Connect != nil:
		r.Connect = &protocol.ConnectResult{Client: "x", Version: "fake", Ping: 25, Pong: true}
	case cmd.Subscribe != nil:
		r.Subscribe = f.subscribe(c, cmd.Subscribe)
	case cmd.Publish != nil:
		r.Publish = &protocol.PublishResult{}
		f.publish(cmd.Publish)
	default:
		return
	}
	c.send(r)
}

func (f *fake) subscribe(c *fakeConn, req *protocol.SubscribeRequest) *protocol.SubscribeResult {
	c.channel = req.Channel
	f.conns[c] = true
	stream := f.stream[req.Channel]
	res := &protocol.SubscribeResult{Recoverable: true, Positioned: true, Epoch: "e", Offset: uint64(len(stream))}
	if req.Recover {
		res.WasRecovering, res.Recovered = true, true
		res.Publications = append(res.Publications, stream[req.Offset:]...)
		if f.recover != nil {
			f.recover(res)
		}
	}
	return res
}

func (f *fake) publish(req *protocol.PublishRequest) {
	pub := &protocol.Publication{Data: req.Data, Offset: uint64(len(f.stream[req.Channel]) + 1)}
	f.stream[req.Channel] = append(f.stream[req.Channel], pub)
	for c := range f.conns {
		if c.channel != req.Channel {
			continue
		}
		pubs := []*protocol.Publication{pub}
		if f.deliver != nil {
			pubs = f.deliver(c.got, pub)
		}
		if f.end != nil && f.end(c.got) {
			_ = ws.WriteFrame(c.conn, ws.NewCloseFrame(ws.NewCloseFrameBody(3008, "slow")))
			c.conn.Close()
		}
		c.got++
		for _, p := range pubs {
			c.send(&protocol.Reply{Push: &protocol.Push{Channel: c.channel, Pub: p}})
		}
	}
}

func (c *fakeConn) send(r *protocol.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.server.codec.AppendReply(nil, r)
	if err != nil {
		panic(err)
	}
	op := ws.OpText
	if c.server.codec.Encoding() == protocol.Protobuf {
		op = ws.OpBinary
	}
	_ = wsutil.WriteServerMessage(c.conn, op, b) // a client that is gone does not matter
}

// scenarioOf is what tests run.
type scenarioOf interface {
	Run(context.Context) (*Report, error)
}

// execute runs a scenario that has to begin.
func execute(t *testing.T, s scenarioOf) (*Report, error) {
	t.Helper()
	rep, err := s.Run(t.Context())
	if rep == nil {
		t.Fatalf("no report: %v", err)
	}
	if rep.OK != (err == nil) || (rep.Error == "") != (err == nil) {
		t.Errorf("ok %t, error %q, but %v", rep.OK, rep.Error, err)
	}
	return rep, err
}
