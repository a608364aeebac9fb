//go:build !race

package costs

import (
	"context"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/observe"
)

// audience subscribes n connections to a channel, and returns a function that
// publishes and waits until all have got it.
func audience(tb testing.TB, n int, by observe.Observer, o *gyro.PublishOptions) (publish func()) {
	node := nodetest.Run(tb, undisturbed(gyro.Config{Observer: by, Handlers: nodetest.Everything(gyro.SubscribeOptions{Positioned: true}, gyro.PublishOptions{})}))
	conn := newSink()
	for range n {
		peer, err := node.Accept(context.Background(), conn, info)
		nodetest.Must(tb, err)
		tb.Cleanup(func() { peer.Closed(nil) })
		conn.await(1, func() { peer.Receive([]byte(`{"id":1,"connect":{}}`)) })
		conn.await(1, func() { peer.Receive([]byte(`{"id":2,"subscribe":{"channel":"ch"}}`)) })
	}
	return publisher(tb, node, conn, n, o)
}

// publisher returns a function that publishes into the channel ch of a node, and waits until n connections have got it.
func publisher(tb testing.TB, node *gyro.Node, conn *sink, n int, o *gyro.PublishOptions) (publish func()) {
	data := []byte(`{"text":"hello, world"}`)
	do := func() {
		if _, err := node.Publish(context.Background(), "ch", data, o); err != nil {
			tb.Fatal(err)
		}
	}
	return func() { conn.await(n, do) }
}

// What a publication costs does not depend on the number of its subscribers: there
// is the publication. The message that goes round is used again.
func TestPublishAllocBudget(t *testing.T) {
	const budget = 1
	for _, n := range []int{1, 100, 1000} {
		for name, o := range map[string]*gyro.PublishOptions{
			"plain":   nil,
			"history": nodetest.Keep(10, time.Hour),
		} {
			if got := allocations(budget, 200, audience(t, n, observe.Observer{}, o)); got > budget {
				t.Errorf("%s to %d subscribers: %v allocations, budget %d", name, n, got, budget)
			} else {
				t.Logf("%s to %d subscribers: %v allocations", name, n, got)
			}
		}
	}
}

// idle is an observer that does nothing with what it is told.
var idle = observe.Observer{Turn: func(*observe.Turn) {}, Totals: new(observe.Totals)}

// caller connects a client, and returns a function that has a command answered.
func caller(tb testing.TB, o observe.Observer, command string) (call func()) {
	node := nodetest.Run(tb, undisturbed(gyro.Config{Observer: o, Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})}))
	conn := newSink()
	peer, err := node.Accept(context.Background(), conn, info)
	nodetest.Must(tb, err)
	tb.Cleanup(func() { peer.Closed(nil) })
	conn.await(1, func() { peer.Receive([]byte(`{"id":1,"connect":{}}`)) })
	msg := []byte(`{"id":2,` + command + `}`)
	do := func() { peer.Receive(msg) }
	return func() { conn.await(1, do) }
}

// One command is answered on the loop, and one beside it.
var loopCommand, laneCommand = `"unsubscribe":{"channel":"ch"}`, `"rpc":{"method":"m"}`

// To observe commands and deliveries allocates nothing.
func TestObserverAllocations(t *testing.T) {
	for _, command := range []string{loopCommand, laneCommand} {
		bare := testing.AllocsPerRun(1000, caller(t, observe.Observer{}, command))
		if got := allocations(bare, 1000, caller(t, idle, command)); got > bare {
			t.Errorf("%s: %v allocations, without observer %v", command, got, bare)
		}
	}
	bare := testing.AllocsPerRun(200, audience(t, 100, observe.Observer{}, nil))
	if got := allocations(bare, 200, audience(t, 100, idle, nil)); got > bare {
		t.Errorf("publish: %v allocations, without observer %v", got, bare)
	}
}

func TestHealthAllocatesLittle(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{})
	if n := allocations(5, 100, func() { node.Health() }); n > 5 {
		t.Errorf("%v allocations", n)
	}
}

func benchmarkObserver(b *testing.B, prepare func(b *testing.B, o observe.Observer) func()) {
	for _, is := range []struct {
		name     string
		observer observe.Observer
	}{{"bare", observe.Observer{}}, {"observed", idle}} {
		b.Run(is.name, func(b *testing.B) {
			do := prepare(b, is.observer)
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

func BenchmarkPublish1(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return audience(b, 1, o, nil) })
}

func BenchmarkPublish1000(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return audience(b, 1000, o, nil) })
}

func BenchmarkLoopCommand(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return caller(b, o, loopCommand) })
}

func BenchmarkLaneCommand(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return caller(b, o, laneCommand) })
}
