package main

import (
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
)

func TestTwoNodes(t *testing.T) {
	bus := newBus(t)
	var (
		nodes   []*gyro.Node
		clients []*gyrotest.Client
	)
	for _, name := range []string{"a", "b"} {
		node, err := newNode(name, bus)
		if err != nil {
			t.Fatal(err)
		}
		c := gyrotest.Open(t, node, nil)
		c.Connect(nil)
		c.Subscribe("news", nil)
		nodes, clients = append(nodes, node), append(clients, c)
	}
	a, b := clients[0], clients[1]
	a.Publish("news", `"from a"`)
	b.Publish("news", `"from b"`)
	for _, c := range clients {
		if p := c.Publication("news"); string(p.Data) != `"from a"` || p.Offset != 1 {
			t.Errorf("got %s at %d", p.Data, p.Offset)
		}
		if p := c.Publication("news"); string(p.Data) != `"from b"` || p.Offset != 2 {
			t.Errorf("got %s at %d", p.Data, p.Offset)
		}
		if n := len(c.Presence("news")); n != 2 {
			t.Errorf("%d are present", n)
		}
	}
	// The end of one node leaves the other alone.
	if err := nodes[0].Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Publish("news", `"alone"`)
	if p := b.Publication("news"); string(p.Data) != `"alone"` {
		t.Errorf("got %s", p.Data)
	}
	if err := nodes[1].Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}
