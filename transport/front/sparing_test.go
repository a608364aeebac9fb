package front

import (
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/transport"
)

// TestSparing: while there is no room, connections are closed and the listener waits; as many are
// served as there is room for. Loops accept several connections at a time.
func TestSparing(t *testing.T) {
	for _, name := range []string{"loops", "goroutines"} {
		t.Run(name, func(t *testing.T) {
			var acceptor transport.Acceptor
			if name == "loops" {
				sockets := loop.New()
				go sockets.Run()
				defer sockets.Close()
				acceptor = watching{next: func() transport.Loop { return sockets.Sockets() }}
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var clients []net.Conn
			for range 5 {
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				_ = nc.SetDeadline(time.Now().Add(patience))
				clients = append(clients, nc)
			}
			const closed = 2
			var asked atomic.Int64
			logs := new(logtest.Buffer)
			s := &http.Server{ErrorLog: log.New(logs, "", 0), Handler: http.NotFoundHandler()}
			var refused, accepted atomic.Int64
			l := Listen(Sparing{TCPListener: ln.(*net.TCPListener), Room: func() bool {
				n := asked.Add(1)
				if name == "goroutines" { // asked twice for each connection that is closed
					n = (n + 1) / 2
				}
				return n > closed
			}, Tried: func(err error) {
				if err != nil {
					refused.Add(1)
				} else {
					accepted.Add(1)
				}
			}}, s, acceptor, Route{Method: http.MethodGet, Path: "/ws", Upgrade: "test", Take: func(*Arrival) {}})
			served := make(chan error)
			go func() { served <- s.Serve(l) }()
			n := 0
			for _, nc := range clients {
				_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
				switch answer, err := io.ReadAll(nc); {
				case strings.HasPrefix(string(answer), "HTTP/1.1 404 "):
					n++
				case len(answer) > 0 || err != nil && strings.Contains(err.Error(), "timeout"):
					t.Errorf("%q, %v", answer, err)
				}
			}
			if n != len(clients)-closed {
				t.Errorf("%d of %d clients were served, and there was no room for %d", n, len(clients), closed)
			}
			s.Close()
			<-served
			if text := "too many open files; retrying in"; name == "goroutines" && strings.Count(logs.String(), text) != closed {
				t.Errorf("the log does not say %d times %q:\n%s", closed, text, logs)
			}
			if accepted.Load() == 0 || name == "goroutines" && refused.Load() != closed {
				t.Errorf("attempts were told of: %d that failed, %d others", refused.Load(), accepted.Load())
			}
		})
	}
}
