//go:build !race

package gyro

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/websocket"
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
		info := transport.Info{Name: "mute", Framer: wstest.Framer(protocol.JSON)}
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

// What the values of a request's context cost a connection, for a program that calls SetCredentials
// in its middleware, and what they do not cost one that does not. net/http serves both.
func TestBytesOfRequestContext(t *testing.T) {
	const n, budget = 500, 700
	perClient := func(credentials func(context.Context) context.Context) int64 {
		node := openNode(t)
		node.cfg.Handlers.Connecting = func(ctx context.Context, _ ConnectEvent) (ConnectReply, error) {
			return ConnectReply{Credentials: cmp.Or(GetCredentials(ctx), &Credentials{UserID: "u"})}, nil
		}
		h := websocket.NewHandler(node, websocket.Config{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(credentials(r.Context())))
		}))
		clients := make([]*wstest.Client, n)
		before := liveHeap()
		for i := range clients {
			clients[i] = wstest.Dial(t, server.URL, nil)
			clients[i].Connect("")
		}
		got := (liveHeap() - before) / n
		runtime.KeepAlive(clients)
		server.Close()
		if err := node.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		return got
	}
	who := &Credentials{UserID: "u"}
	plain := func(ctx context.Context) context.Context { return context.WithValue(ctx, pathKey{}, who) }
	perClient(plain) // fills pools
	none := perClient(plain)
	kept := perClient(func(ctx context.Context) context.Context { return SetCredentials(ctx, who) })
	t.Logf("%d bytes per connection and its client in the test, %d with a context of the request", none, kept)
	if kept-none > budget {
		t.Errorf("the context of a request costs %d bytes, budget %d", kept-none, budget)
	}
}

type pathKey struct{}

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
	info := transport.Info{Name: "mute", Framer: wstest.Framer(protocol.JSON)}
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
	const budget = 32
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

// liveHeap is the number of bytes that are reachable.
func liveHeap() int64 {
	var m runtime.MemStats
	for range 3 { // pools are emptied in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
