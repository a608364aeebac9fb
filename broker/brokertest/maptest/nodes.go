package maptest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/internal/record"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// RunNodes tests the maps of an engine that nodes share. Each call of newBroker makes one of them.
// Of the capabilities, Unit counts. The tests are parallel: they run when the function that called RunNodes has returned.
func RunNodes(t *testing.T, newBroker func(t testing.TB) broker.Broker, caps brokertest.Capabilities) {
	caps.Virtual = false
	for name, test := range map[string]func(nodes []*fixture){
		"NodesSeeTheSame": testNodesSeeTheSame, "NodesExpireOnce": testNodesExpireOnce,
		"NodesRace": testNodesRace, "NodeDies": testNodeDies, "NodesClear": testNodesClear,
		"NodesMaxEntries": testNodesMaxEntries,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := make([]*fixture, 2)
			for i := range nodes {
				nodes[i] = newFixture(t, newBroker(t), caps)
			}
			nodes[1].ch = nodes[0].ch
			nodes[1].must(nodes[1].broker.Subscribe(context.Background(), nodes[1].ch))
			test(nodes)
		})
	}
}

func testNodesSeeTheSame(nodes []*fixture) {
	a, b := nodes[0], nodes[1]
	o := a.options()
	a.set("x", "1", o)
	b.set("y", "2", o)
	b.remove("x", o)
	top := a.set("z", "4", o).Position
	for _, n := range nodes {
		n.wantEvents("x=1@1", "y=2@2", "x removed@3", "z=4@4")
		n.equal("top", n.wantState("y=2@2", "z=4@4").Top, top)
	}
}

// testNodesExpireOnce has more keys expire than an engine may remove at a time, from both nodes.
func testNodesExpireOnce(nodes []*fixture) {
	const keys = 600
	o := nodes[0].options()
	o.KeyTTL, o.StreamSize = 2*nodes[0].unit, 2*keys
	expectExpired(nodes, keys, o)
	o = channel.MapOptions{KeyTTL: 2 * nodes[0].unit}
	for _, n := range nodes {
		n.must(n.maps.Clear(context.Background(), n.ch))
	}
	expectExpired(nodes, keys, o)
}

// expectExpired sets keys and waits until all nodes have got one removal of each.
func expectExpired(nodes []*fixture, keys int, o channel.MapOptions) {
	for i := range keys {
		nodes[i%2].set(fmt.Sprint("k", i), "", o)
	}
	for _, n := range nodes {
		all, err := n.events.Wait(n.ch, wait.Limit, record.AtLeast(n.read+2*keys))
		n.must(err)
		removed := map[string]int{}
		for _, e := range all[n.read:] {
			if e.Pub.Removed {
				removed[e.Pub.Key]++
			}
		}
		n.equal("keys that were removed", len(removed), keys)
		n.read += 2 * keys
	}
	// Each node looks once more, and does not remove anything again.
	removed := time.Now()
	for _, n := range nodes {
		wait.Until(n, "another look for what has expired", func() bool {
			passed := time.Since(removed)
			lag := n.broker.Describe().Expiry().Lag
			return 0 < lag && lag < passed
		})
	}
	o.KeyTTL = time.Hour
	marker := nodes[0].set("marker", "", o)
	for _, n := range nodes {
		n.wantEvents(fmt.Sprintf("marker=@%d", marker.Position.Offset))
		n.equal("count", n.state(channel.StateFilter{}).Count, 1)
	}
}

func testNodesRace(nodes []*fixture) {
	o := nodes[0].options()
	var position *channel.StreamPosition
	for round := range 50 {
		o.Expected = &channel.StreamPosition{}
		if position != nil {
			o.Expected.Offset = position.Offset
		}
		results := make([]channel.MapResult, 2)
		var both sync.WaitGroup
		for i, n := range nodes {
			both.Go(func() { results[i] = n.set("k", fmt.Sprint(round), o) })
		}
		both.Wait()
		won := slices.IndexFunc(results, func(r channel.MapResult) bool { return r.Suppressed == "" })
		if won < 0 || results[1-won].Suppressed != channel.SuppressPositionMismatch {
			nodes[0].Fatalf("round %d: %+v", round, results)
		}
		position = &results[won].Position
	}
}

// testNodeDies ends the node that has set keys. They expire on the other one.
func testNodeDies(nodes []*fixture) {
	a, b := nodes[0], nodes[1]
	o := a.options()
	o.KeyTTL = 2 * a.unit
	b.wantState()
	a.set("x", "1", o)
	a.must(a.broker.Close(context.Background()))
	b.wantEvents("x=1@1", "x removed@2")
	b.wantState()
}

func testNodesClear(nodes []*fixture) {
	a, b := nodes[0], nodes[1]
	a.set("x", "1", a.options())
	b.wantEvents("x=1@1")
	a.must(a.maps.Clear(context.Background(), a.ch))
	for _, n := range nodes {
		wait.Until(n, "the subscribers to be told", func() bool { return n.events.Lost(n.ch, 1) })
		n.wantState()
	}
}
