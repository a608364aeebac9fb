//go:build !race

package httpapi

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/api/internal/apitest"
)

type quietNode struct{ api.Node }

func (quietNode) BatchSize() int                                        { return 256 }
func (quietNode) PublishBatch(context.Context, []gyro.BatchPublication) {}

// eternal is a connection that sends the same request again and again.
type eternal struct {
	net.Conn
	request []byte
}

func (e *eternal) Read(p []byte) (int, error)       { return copy(p, e.request), nil }
func (e *eternal) Write(p []byte) (int, error)      { return len(p), nil }
func (e *eternal) SetReadDeadline(time.Time) error  { return nil }
func (e *eternal) SetWriteDeadline(time.Time) error { return nil }

// directPublisher returns a function that answers one publish request, but for the
// system calls.
func directPublisher(tb testing.TB) func() {
	exec := api.NewExecutor(api.Config{Node: quietNode{}, Channels: apitest.Namespaces()})
	h, err := New(exec, Config{Prefix: "/api", Key: "secret", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	l := &Listener{
		handler: h, methods: map[string]api.Method{"/api/publish": api.MethodPublish}, ctx: context.Background(),
		closing: make(chan struct{}),
	}
	c := &conn{listener: l, in: getBuffer(0), Conn: &eternal{request: []byte("POST /api/publish HTTP/1.1\r\nHost: localhost:8000\r\n" +
		"User-Agent: Go-http-client/1.1\r\nContent-Length: 91\r\nContent-Type: application/json\r\nX-Api-Key: secret\r\n\r\n" +
		`{"channel":"chat","data":{"user":"42","text":"Hello, how are you today?","ts":1700000000}} `)}}
	return func() {
		if err := c.next(); err != nil {
			tb.Fatal(err)
		}
		if err := c.answer(); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestDirectAllocations holds the budget of the hottest endpoint: the request, its
// channel and payload, and the result.
func TestDirectAllocations(t *testing.T) {
	if n := testing.AllocsPerRun(1000, directPublisher(t)); n > 4 {
		t.Errorf("a publish request allocates %v times, want at most 4", n)
	}
}

func BenchmarkDirectPublish(b *testing.B) {
	run := directPublisher(b)
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
