//go:build !race

package httpapi_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/transport/front"
)

// eternal is a connection, and the listener of it, that sends the same request again and
// again.
type eternal struct {
	net.Conn
	request []byte
	vary    bool     // another head each time
	send    chan int // how many times it is sent
	left    int
	sent    chan struct{}
	end     chan struct{}
	come    bool
}

func (e *eternal) Read(p []byte) (int, error) {
	if e.left == 0 {
		select {
		case e.left = <-e.send:
		case <-e.end:
			return 0, net.ErrClosed
		}
	}
	if e.vary {
		e.request[len("POST /api/publish HTTP/1.1\r\nHost: ")] ^= 1
	}
	return copy(p, e.request), nil
}

func (e *eternal) Write(p []byte) (int, error) {
	if e.left--; e.left == 0 {
		e.sent <- struct{}{}
	}
	return len(p), nil
}

func (e *eternal) SetReadDeadline(time.Time) error  { return nil }
func (e *eternal) SetWriteDeadline(time.Time) error { return nil }
func (e *eternal) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (e *eternal) Addr() net.Addr                   { return &net.TCPAddr{} }
func (e *eternal) Close() error                     { return nil }

func (e *eternal) Accept() (net.Conn, error) {
	if e.come {
		<-e.end
		return nil, net.ErrClosed
	}
	e.come = true
	return e, nil
}

// directPublisher returns a function that answers n publish requests, but for the system
// calls. With vary, the head of each differs from that before.
func directPublisher(tb testing.TB, vary bool) func(n int) {
	exec := api.NewExecutor(api.Config{Node: quickNode{}, Channels: apitest.Namespaces()})
	h, err := httpapi.New(exec, httpapi.Config{Prefix: "/api", Guard: byKey("secret")})
	if err != nil {
		tb.Fatal(err)
	}
	e := &eternal{vary: vary, send: make(chan int), sent: make(chan struct{}), end: make(chan struct{}), request: []byte("POST /api/publish HTTP/1.1\r\nHost: localhost:8000\r\n" +
		"User-Agent: Go-http-client/1.1\r\nContent-Length: 91\r\nContent-Type: application/json\r\nX-Api-Key: secret\r\n\r\n" +
		`{"channel":"chat","data":{"user":"42","text":"Hello, how are you today?","ts":1700000000}} `)}
	l := front.Listen(e, &http.Server{}, nil, h.Routes()...)
	go func() { _, _ = l.Accept() }()
	tb.Cleanup(func() {
		close(e.end)
		_ = l.Close()
		_ = l.Wait(context.Background())
	})
	return func(n int) {
		e.send <- n
		<-e.sent
	}
}

// TestDirectAllocations holds the budget of the hottest endpoint: the request, its
// channel and payload, and the result; and the head, if it is another one.
func TestDirectAllocations(t *testing.T) {
	for vary, budget := range map[bool]float64{false: 4, true: 5} {
		run := directPublisher(t, vary)
		if n := testing.AllocsPerRun(1000, func() { run(1) }); n > budget {
			t.Errorf("a publish request allocates %v times, want at most %v", n, budget)
		}
	}
}

func BenchmarkDirectPublish(b *testing.B) {
	for _, vary := range []bool{false, true} {
		name := "same head"
		if vary {
			name = "other head"
		}
		b.Run(name, func(b *testing.B) {
			run := directPublisher(b, vary)
			b.ReportAllocs()
			b.ResetTimer()
			run(b.N)
		})
	}
}
