//go:build !race

package costs

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// A client is to fit into the allocator's size class of 352 bytes.
func TestClientSizeBudget(t *testing.T) {
	if size := unsafe.Sizeof(gyro.Client{}); unsafe.Sizeof(uintptr(0)) == 8 && size > 352 {
		t.Errorf("a Client has %d bytes", size)
	}
}

// inline runs a node that lets everybody do everything at once.
func inline(tb testing.TB) *gyro.Node {
	return nodetest.Run(tb, gyro.Config{InlineHandlers: true, Handlers: gyro.Handlers{
		Connecting: nodetest.As, Subscribe: nodetest.Allow(gyro.SubscribeOptions{}),
	}})
}

// loopsOf returns the loops of a node, and the first of them.
func loopsOf(tb testing.TB, node *gyro.Node) (nodeaccess.Acceptor, transport.Loop) {
	loops := nodeaccess.Of(node)
	l := loops.NextLoop()
	if l == nil {
		tb.Skip("connections are not on loops here")
	}
	return loops, l
}

// What an idle connection with a channel of its own costs, all in all: the client,
// its subscription, the channel in the routes, the hub and the broker, and its
// places in lists. The transport's part is not in it.
func TestBytesPerConnectionBudget(t *testing.T) {
	const n, budget = 2000, 1000
	alone(t)
	node := inline(t)
	loops, l := loopsOf(t, node)
	conn, peers, on := newSink(), make([]transport.Peer, n), make([]transport.Loop, n)
	t.Cleanup(func() {
		for i, l := range on {
			l.Post(func() { peers[i].Closed(nil) })
		}
	})
	goroutines := runtime.NumGoroutine()
	got := bytesEach(t, n, func() {
		for i := range peers {
			on[i], l = l, loops.NextLoop()
			conn.await(1, func() {
				on[i].Post(func() {
					p, err := loops.AcceptOn(on[i], context.Background(), conn, info)
					if err != nil {
						panic(err)
					}
					peers[i] = p
					p.Receive(fmt.Appendf(nil, "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"user:%d\"}}", i))
				})
			})
		}
	})
	t.Logf("%d bytes per connection", got)
	if size := nodetest.Info(t, node).NumChannels; size != n {
		t.Fatalf("%d channels of %d", size, n)
	}
	if got > budget {
		t.Errorf("%d bytes per connection, budget %d", got, budget)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before there were connections", now, goroutines)
	}
}

// lives returns a function that lets 100 connections live: connect and subscribe in
// one frame, the replies, the end. There is no transport in it.
func lives(tb testing.TB) func() {
	loops, l := loopsOf(tb, inline(tb))
	conn, frame := newSink(), []byte("{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"user:1234\"}}")
	left, done := 0, make(chan struct{}, 1)
	live := func() {
		p, err := loops.AcceptOn(l, context.Background(), conn, info)
		if err != nil {
			panic(err)
		}
		p.Receive(frame)
		p.Writable()
		p.Closed(protocol.DisconnectConnectionClosed)
		if left--; left == 0 {
			done <- struct{}{}
		}
	}
	return func() {
		left = 100
		for range 100 {
			l.Post(live)
		}
		<-done
	}
}

func TestConnectionAllocBudget(t *testing.T) {
	const budget = 24
	if got := allocations(100*budget, 10, lives(t)) / 100; got > budget {
		t.Errorf("a connection makes %v allocations in its life, budget %d", got, budget)
	}
}

func BenchmarkConnection(b *testing.B) {
	live := lives(b)
	b.ReportAllocs()
	for b.Loop() {
		live()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/conn")
}
