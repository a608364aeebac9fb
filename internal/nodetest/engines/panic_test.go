package engines

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// brittle is a connection, and its framer, that panic when they are told to.
type brittle struct {
	transport.Framer
	frame, write, end atomic.Bool
	closed            chan protocol.Disconnect
}

func (b *brittle) Headroom() int {
	if b.frame.Load() {
		panic("no frame")
	}
	return b.Framer.Headroom()
}

func (b *brittle) Write(frames [][]byte) (n int, err error) {
	if b.write.Load() {
		panic("no write")
	}
	for _, f := range frames {
		n += len(f)
	}
	return n, nil
}

func (b *brittle) Close(d protocol.Disconnect, _ [][]byte) {
	if b.end.Swap(false) {
		panic("no end")
	}
	b.closed <- d
}

func (b *brittle) Pause(bool) {}

// onLoop is a peer that is driven by its loop.
type onLoop struct {
	transport.Peer
	loop transport.Loop
}

func (p *onLoop) Receive(msg []byte) { p.loop.Post(func() { p.Peer.Receive(msg) }) }
func (p *onLoop) Closed(err error)   { p.loop.Post(func() { p.Peer.Closed(err) }) }

func (b *brittle) open(t *testing.T, node *gyro.Node, goroutines bool) transport.Peer {
	info := transport.Info{Name: "brittle", Framer: b}
	loops := nodeaccess.Of(node)
	l := loops.NextLoop()
	if goroutines || l == nil {
		p, err := node.Accept(context.Background(), b, info)
		nodetest.Must(t, err)
		return p
	}
	p := &onLoop{loop: l}
	l.Post(func() {
		var err error
		p.Peer, err = loops.AcceptOn(l, context.Background(), b, info)
		nodetest.Must(t, err)
	})
	return p
}

// breaks are the ways in which something panics for a client that has connected and
// subscribed to ch; next lets it happen.
var breaks = map[string]func(t *testing.T, node *gyro.Node, b *brittle, p transport.Peer, engine *faulty){
	"receiving": func(_ *testing.T, _ *gyro.Node, b *brittle, p transport.Peer, _ *faulty) {
		b.frame.Store(true)
		p.Receive([]byte(`{"id":3,"subscribe":{"channel":"ch"}}`))
	},
	"completing": func(_ *testing.T, _ *gyro.Node, b *brittle, p transport.Peer, _ *faulty) {
		b.frame.Store(true)
		p.Receive([]byte(`{"id":3,"rpc":{}}`))
	},
	"subscribing": func(_ *testing.T, _ *gyro.Node, b *brittle, p transport.Peer, _ *faulty) {
		b.frame.Store(true)
		p.Receive([]byte(`{"id":3,"subscribe":{"channel":"other"}}`))
	},
	"delivering": func(t *testing.T, node *gyro.Node, b *brittle, _ transport.Peer, _ *faulty) {
		b.frame.Store(true)
		nodetest.Publish(t, node, "ch", `{}`)
	},
	"writing": func(_ *testing.T, _ *gyro.Node, b *brittle, p transport.Peer, _ *faulty) {
		b.write.Store(true)
		p.Receive([]byte(`{"id":3,"rpc":{}}`))
	},
	"closing": func(_ *testing.T, _ *gyro.Node, b *brittle, p transport.Peer, _ *faulty) {
		b.write.Store(true)
		b.end.Store(true)
		p.Receive([]byte(`{"id":3,"rpc":{}}`))
	},
	"ticking": func(_ *testing.T, _ *gyro.Node, b *brittle, _ transport.Peer, _ *faulty) {
		b.frame.Store(true)
		time.Sleep(time.Minute)
	},
	"told by the server": func(t *testing.T, node *gyro.Node, b *brittle, _ transport.Peer, _ *faulty) {
		b.frame.Store(true)
		nodetest.Must(t, node.Users().Unsubscribe(context.Background(), gyro.Target{User: "u"}, "ch", nil))
	},
	"attaching": func(_ *testing.T, _ *gyro.Node, _ *brittle, p transport.Peer, engine *faulty) {
		engine.on("add", func() error { panic("no presence") })
		p.Receive([]byte(`{"id":3,"subscribe":{"channel":"other"}}`))
	},
	"joining": func(_ *testing.T, _ *gyro.Node, _ *brittle, p transport.Peer, engine *faulty) {
		engine.on("join", func() error { panic("no join") })
		p.Receive([]byte(`{"id":3,"subscribe":{"channel":"other"}}`))
	},
}

// What panics for one client ends this client, and nothing else.
func TestPanicsEndOneClient(t *testing.T) {
	for name, breakIt := range breaks {
		for _, goroutines := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/goroutines=%v", name, goroutines), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					engine := newFaulty()
					var log bytes.Buffer // slog's handler has a lock
					o := gyro.SubscribeOptions{Presence: true, EmitJoinLeave: true}
					node := nodetest.Run(t, gyro.Config{
						Broker: engine, Presence: engine, GoroutineDriver: goroutines, Logger: slog.New(slog.NewTextHandler(&log, nil)),
						Handlers: nodetest.Everything(o, gyro.PublishOptions{}),
					})
					other := nodetest.Connect(t, node, "other")
					other.Subscribe("ch", "")
					b := &brittle{Framer: wstest.Framer(protocol.JSON), closed: make(chan protocol.Disconnect, 2)}
					p := b.open(t, node, goroutines)
					p.Receive([]byte(`{"id":1,"connect":{"token":"u"}}` + "\n" + `{"id":2,"subscribe":{"channel":"ch"}}`))
					synctest.Wait()
					breakIt(t, node, b, p, engine)
					if d := <-b.closed; d != protocol.DisconnectServerError {
						t.Errorf("closed with %v", d)
					}
					engine.on("add", nil)
					engine.on("join", nil)
					p.Closed(nil)
					synctest.Wait()
					if node.Inspect().Panics() == 0 || !strings.Contains(log.String(), "panic_test.go") {
						t.Errorf("%d panics counted; logged: %s", node.Inspect().Panics(), log.String())
					}
					// The others go on.
					other.Do(`"rpc":{}`)
					nodetest.Publish(t, node, "ch", `{"n":1}`)
					for other.Push().Pub == nil {
						// the joins and the leave
					}
					if here, err := node.Presence(context.Background(), "ch"); err != nil || len(here) != 1 {
						t.Errorf("present: %v, %v", here, err)
					}
					if n := nodetest.Info(t, node); n.NumClients != 1 || n.NumSubs != 1 {
						t.Errorf("left: %+v", n)
					}
				})
			})
		}
	}
}
