package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

func newBus(t testing.TB) *Bus {
	bus, err := NewBus()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return bus
}

// The broker is held to what every engine promises, and to its traits.
func TestConformance(t *testing.T) {
	brokertest.RunBroker(t, func(t testing.TB) broker.Broker { return newBus(t).Broker() },
		brokertest.Capabilities{Virtual: true, SuppressedRenews: true})
}

func TestControl(t *testing.T) {
	bus := newBus(t)
	brokertest.RunControl(t, func(testing.TB) broker.Broker { return bus.Broker() }, brokertest.Capabilities{})
}

// Nodes on the bus are a cluster, and their clients hear of what any of them publishes.
func TestCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := newBus(t)
		nodes := make([]*gyro.Node, 2)
		for i, name := range []string{"a", "b"} {
			node, err := newNode(name, bus)
			if err != nil {
				t.Fatal(err)
			}
			defer node.Shutdown(context.Background())
			nodes[i] = node
		}
		c := &client{lines: make(chan string, 100)}
		peer, err := nodes[0].Accept(t.Context(), c, transport.Info{Name: "test", Framer: new(lines)})
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Closed(nil)
		peer.Receive([]byte(`{"id":1,"connect":{}}`))
		c.expect(t, `"id":1,"connect":`)
		peer.Receive([]byte(`{"id":2,"subscribe":{"channel":"news"}}`))
		c.expect(t, `"id":2,"subscribe":`)
		if _, err := nodes[1].Publish(t.Context(), "news", []byte(`"hello"`), nil); err != nil {
			t.Fatal(err)
		}
		c.expect(t, `"data":"hello"`)
		synctest.Wait() // until the nodes have told each other of themselves
		infos, err := nodes[0].Info(t.Context())
		if err != nil || len(infos) != 2 || infos[1].Name != "b" {
			t.Errorf("nodes %+v, %v", infos, err)
		}
	})
}

// client is a connection in memory.
type client struct{ lines chan string }

// expect waits for a message with a part.
func (c *client) expect(t *testing.T, part string) {
	t.Helper()
	if line := <-c.lines; !strings.Contains(line, part) {
		t.Fatalf("got %s, want %s", line, part)
	}
}

// Write implements transport.Conn.
func (c *client) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		n += len(f)
		for line := range bytes.Lines(f) {
			c.lines <- string(line)
		}
	}
	return n, nil
}

// Close implements transport.Conn.
func (c *client) Close(protocol.Disconnect, [][]byte) {}

// Pause implements transport.Conn.
func (c *client) Pause(bool) {}

// lines is a transport.Framer: it puts each message on a line of its own.
type lines struct{}

func (*lines) Encoding() protocol.Encoding { return protocol.JSON }
func (*lines) Headroom() int               { return 0 }
func (*lines) Costly() bool                { return false }
func (*lines) Frame(buf []byte) []byte     { return append(buf, '\n') }
