package main

import (
	"net/http/httptest"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/transport/websocket"
)

func TestTwoNodes(t *testing.T) {
	bus := newBus(t)
	var (
		nodes   []*gyro.Node
		clients []*wstest.Client
	)
	for _, name := range []string{"a", "b"} {
		node, err := newNode(name, bus)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(websocket.NewHandler(node, websocket.Config{}))
		t.Cleanup(s.Close)
		c := wstest.Dial(t, s.URL, nil)
		c.Connect("")
		c.Subscribe("news", "")
		nodes, clients = append(nodes, node), append(clients, c)
	}
	a, b := clients[0], clients[1]
	a.Do(`"publish":{"channel":"news","data":"from a"}`)
	b.Do(`"publish":{"channel":"news","data":"from b"}`)
	for _, c := range clients {
		if p := c.Pub(); string(p.Data) != `"from a"` || p.Offset != 1 {
			t.Errorf("got %s at %d", p.Data, p.Offset)
		}
		if p := c.Pub(); string(p.Data) != `"from b"` || p.Offset != 2 {
			t.Errorf("got %s at %d", p.Data, p.Offset)
		}
		if n := len(c.Do(`"presence":{"channel":"news"}`).Presence.Presence); n != 2 {
			t.Errorf("%d are present", n)
		}
	}
	// The end of one node leaves the other alone.
	if err := nodes[0].Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Do(`"publish":{"channel":"news","data":"alone"}`)
	if p := b.Pub(); string(p.Data) != `"alone"` {
		t.Errorf("got %s", p.Data)
	}
	if err := nodes[1].Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}
