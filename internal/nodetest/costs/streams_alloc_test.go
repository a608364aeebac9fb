//go:build !race && linux

package costs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// news subscribes every client to a channel without a history.
var news = gyro.Handlers{Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
	return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}, Subscriptions: map[string]gyro.SubscribeOptions{"news": {}}}, nil
}}

// TestStreamAllocations: what a publication to streams costs does not depend on their number.
func TestStreamAllocations(t *testing.T) {
	const budget = 1 // the publication
	const size = int64(len("32\r\ndata: {\"channel\":\"news\",\"pub\":{\"data\":{\"text\":1}}}\n\n\r\n"))
	for _, n := range []int{1, 100} {
		node := nodetest.Run(t, gyro.Config{Handlers: news})
		s := nodetest.StreamServer(t, node, httpstream.UniSSE, httpstream.Config{}, false)
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

// TestBytesOfStreamBudget: an idle stream on a loop, with its client in this test.
func TestBytesOfStreamBudget(t *testing.T) {
	const n, budget = 500, 3 << 10
	alone(t)
	node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: news})
	s := nodetest.StreamServer(t, node, httpstream.UniSSE, httpstream.Config{}, false)
	buf := make([]byte, 4096)
	openEvents(t, s, buf) // fills pools
	conns := make([]net.Conn, n)
	goroutines := runtime.NumGoroutine()
	got := bytesEach(t, n, func() {
		for i := range conns {
			conns[i] = openEvents(t, s, buf)
		}
	})
	if t.Logf("%d bytes", got); got > budget {
		t.Errorf("%d bytes per stream, budget %d", got, budget)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 10 {
		t.Errorf("%d goroutines more for %d streams", more, n)
	}
	runtime.KeepAlive(conns)
}

// TestBytesOfPollBudget: a long poll that waits on a loop, with its client in this test.
func TestBytesOfPollBudget(t *testing.T) {
	const n, budget = 500, 4 << 10
	alone(t)
	node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: nodetest.Granted("news")})
	s := nodetest.StreamServer(t, node, httpstream.UniPoll, httpstream.Config{PollTimeout: time.Hour}, false)
	resp, err := s.Client().Post(s.URL, "", strings.NewReader("{}"))
	nodetest.Must(t, err)
	var first struct{ Subs json.RawMessage }
	nodetest.Must(t, json.NewDecoder(resp.Body).Decode(&first))
	resp.Body.Close()
	body := `{"subs":` + string(first.Subs) + `}`
	conns := make([]net.Conn, n)
	poll := func() net.Conn {
		nc, err := net.Dial("tcp", s.Listener.Addr().String())
		nodetest.Must(t, err)
		t.Cleanup(func() { nc.Close() })
		_, err = fmt.Fprintf(nc, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		nodetest.Must(t, err)
		return nc
	}
	poll() // fills pools
	wait.Until(t, "all clients", func() bool { return node.NumClients() == 1 })
	got := bytesEach(t, n, func() {
		for i := range conns {
			conns[i] = poll()
		}
		wait.Until(t, "all clients", func() bool { return node.NumClients() == n+1 })
	})
	if t.Logf("%d bytes", got); got > budget {
		t.Errorf("%d bytes per poll, budget %d", got, budget)
	}
	runtime.KeepAlive(conns)
}

// openEvents opens a uni_sse stream over a bare connection, and reads its connect push.
func openEvents(tb testing.TB, s *httptest.Server, buf []byte) net.Conn {
	tb.Helper()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	if _, err := io.WriteString(nc, "GET /?cf_connect="+url.QueryEscape(`{"token":"u"}`)+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		tb.Fatal(err)
	}
	for n := 0; !strings.Contains(string(buf[:n]), "data: "); {
		m, err := nc.Read(buf[n:])
		if n += m; err != nil {
			tb.Fatalf("%q, %v", buf[:n], err)
		}
	}
	return nc
}
