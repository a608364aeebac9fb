//go:build !race

package gyro

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// A client is to fit into the allocator's size class of 352 bytes.
func TestClientSize(t *testing.T) {
	if size := unsafe.Sizeof(Client{}); unsafe.Sizeof(uintptr(0)) == 8 && size > 352 {
		t.Errorf("a Client has %d bytes", size)
	}
}

// mute is a connection that counts what is written.
type mute struct{ writes *atomic.Int64 }

func (m mute) Write(frames [][]byte) (n int, err error) {
	m.writes.Add(1)
	for _, f := range frames {
		n += len(f)
	}
	return n, nil
}
func (mute) Close(protocol.Disconnect, [][]byte) {}
func (mute) Pause(bool)                          {}

// newlines is a framer without an envelope.
type newlines struct{ _ byte }

var framer = new(newlines)

func (*newlines) Encoding() protocol.Encoding { return protocol.JSON }
func (*newlines) Headroom() int               { return 0 }
func (*newlines) Costly() bool                { return false }
func (*newlines) Frame(buf []byte) []byte     { return append(buf, '\n') }

// openNode runs a node that lets everybody do everything, inline.
func openNode(tb testing.TB) *Node {
	node, err := New(Config{InlineHandlers: true, Handlers: Handlers{
		Connecting: func(context.Context, ConnectEvent) (ConnectReply, error) {
			return ConnectReply{Credentials: &Credentials{}}, nil
		},
		Subscribe: func(context.Context, *Client, SubscribeEvent) (SubscribeReply, error) {
			return SubscribeReply{}, nil
		},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := node.Run(); err != nil {
		tb.Fatal(err)
	}
	return node
}

// What an idle connection with a channel of its own costs, all in all: the client,
// its subscription, the channel in the routes, the hub and the broker, and its
// places in lists. The transport's part is not in it.
func TestBytesPerConnection(t *testing.T) {
	const n, budget = 2000, 1000
	node := openNode(t)
	writes := new(atomic.Int64)
	before := liveHeap()
	goroutines := runtime.NumGoroutine()
	peers := make([]transport.Peer, n)
	for i := range peers {
		info := transport.Info{Name: "mute", Framer: framer}
		err := node.clients.OnLoops(context.Background(), func(l *client.Loop) {
			if l.Index != i%len(node.clients.Loops()) {
				return
			}
			p, err := node.clients.AcceptOn(l.Sockets(), context.Background(), mute{writes}, info)
			if err != nil {
				t.Error(err)
				return
			}
			p.Receive(fmt.Appendf(nil, "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"user:%d\"}}", i))
			peers[i] = p
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for writes.Load() < n {
		runtime.Gosched()
	}
	got := (liveHeap() - before) / n
	t.Logf("%d bytes per connection", got)
	if size := node.engines.Routes.Size(); size != n {
		t.Fatalf("%d channels of %d", size, n)
	}
	if got > budget {
		t.Errorf("%d bytes per connection, budget %d", got, budget)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before there were connections", now, goroutines)
	}
	for i, p := range peers {
		_ = node.clients.OnLoops(context.Background(), func(l *client.Loop) {
			if l.Index == i%len(node.clients.Loops()) {
				p.Closed(nil)
			}
		})
	}
	if err := node.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// lives returns a function that lets 100 connections live: connect and subscribe in
// one frame, the replies, the end. There is no transport in it.
func lives(tb testing.TB) func() {
	node := openNode(tb)
	tb.Cleanup(func() {
		if err := node.Shutdown(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	writes := new(atomic.Int64)
	info := transport.Info{Name: "mute", Framer: framer}
	frame := []byte("{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"channel\":\"user:1234\"}}")
	l := node.clients.Loops()[0]
	done := make(chan struct{})
	live := loop.Func(func() {
		for range 100 {
			p, err := node.clients.AcceptOn(l.Sockets(), context.Background(), mute{writes}, info)
			if err != nil {
				tb.Error(err)
				break
			}
			*l.Allowance() = 64 // each has its own
			p.Receive(frame)
			p.Writable()
			p.Closed(protocol.DisconnectConnectionClosed)
		}
		done <- struct{}{}
	})
	return func() {
		l.Post(live)
		<-done
	}
}

func TestConnectionAllocBudget(t *testing.T) {
	const budget = 24
	if got := testing.AllocsPerRun(10, lives(t)) / 100; got > budget {
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

// LiveHeap is liveHeap for tests that use the library as programs do.
var LiveHeap = liveHeap

// liveHeap is the number of bytes that are reachable.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 { // pools are emptied in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
