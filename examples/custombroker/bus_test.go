package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/gyrotest"
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
		c := gyrotest.Open(t, nodes[0], nil)
		c.Connect(nil)
		c.Subscribe("news", nil)
		if _, err := nodes[1].Publish(t.Context(), "news", []byte(`"hello"`), nil); err != nil {
			t.Fatal(err)
		}
		if p := c.Publication("news"); string(p.Data) != `"hello"` {
			t.Errorf("got %s", p.Data)
		}
		synctest.Wait() // until the nodes have told each other of themselves
		infos, err := nodes[0].Cluster().Nodes(t.Context())
		if err != nil || len(infos) != 2 || infos[1].Name != "b" {
			t.Errorf("nodes %+v, %v", infos, err)
		}
	})
}
