//go:build !race && linux

package gyro_test

import (
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// TestStreamAllocations: what a publication to streams costs does not depend on their number.
func TestStreamAllocations(t *testing.T) {
	const budget = 1 // the publication
	const size = int64(len("32\r\ndata: {\"channel\":\"news\",\"pub\":{\"data\":{\"text\":1}}}\n\n\r\n"))
	for _, n := range []int{1, 100} {
		node := run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: byToken}})
		s := streamServer(t, node, httpstream.UniSSE, httpstream.Config{}, false)
		var got atomic.Int64
		all := make(chan struct{}, 1)
		for range n {
			buf := make([]byte, 4096)
			nc := openEvents(t, s, buf)
			go func() {
				for {
					m, err := nc.Read(buf)
					if err != nil {
						return
					}
					if got.Add(int64(m)) == size*int64(n) {
						all <- struct{}{}
					}
				}
			}()
		}
		data := []byte(`{"text":1}`)
		if allocs := allocations(budget, 200, func() {
			got.Store(0)
			if _, err := node.Publish(t.Context(), "news", data, nil); err != nil {
				t.Fatal(err)
			}
			<-all
		}); allocs > budget {
			t.Errorf("%d streams: %v allocations, budget %d", n, allocs, budget)
		}
	}
}

// TestBytesOfStream: an idle stream on a loop, with its client in this test.
func TestBytesOfStream(t *testing.T) {
	const n, budget = 500, 3 << 10
	node := run(t, gyro.Config{InlineHandlers: true, Handlers: gyro.Handlers{Connecting: byToken}})
	s := streamServer(t, node, httpstream.UniSSE, httpstream.Config{}, false)
	buf := make([]byte, 4096)
	openEvents(t, s, buf) // fills pools
	conns := make([]net.Conn, n)
	goroutines, before := runtime.NumGoroutine(), gyro.LiveHeap()
	for i := range conns {
		conns[i] = openEvents(t, s, buf)
	}
	got := (gyro.LiveHeap() - before) / n
	if t.Logf("%d bytes", got); got > budget {
		t.Errorf("%d bytes per stream, budget %d", got, budget)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 10 {
		t.Errorf("%d goroutines more for %d streams", more, n)
	}
	runtime.KeepAlive(conns)
}

// TestBytesOfPoll: a long poll that waits on a loop, with its client in this test.
func TestBytesOfPoll(t *testing.T) {
	const n, budget = 500, 4 << 10
	node := run(t, gyro.Config{InlineHandlers: true, Handlers: granted("news")})
	s := streamServer(t, node, httpstream.UniPoll, httpstream.Config{PollTimeout: time.Hour}, false)
	subs := fetch(t.Context(), s, "{}").Subs
	body := `{"subs":` + string(subs) + `}`
	conns := make([]net.Conn, n)
	poll := func() net.Conn {
		nc, err := net.Dial("tcp", s.Listener.Addr().String())
		must(t, err)
		t.Cleanup(func() { nc.Close() })
		_, err = fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		must(t, err)
		return nc
	}
	poll() // fills pools
	wait.Until(t, "all clients", func() bool { return node.NumClients() == 1 })
	before := gyro.LiveHeap()
	for i := range conns {
		conns[i] = poll()
	}
	wait.Until(t, "all clients", func() bool { return node.NumClients() == n+1 })
	got := (gyro.LiveHeap() - before) / n
	if t.Logf("%d bytes", got); got > budget {
		t.Errorf("%d bytes per poll, budget %d", got, budget)
	}
	runtime.KeepAlive(conns)
}
