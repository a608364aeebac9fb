package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodeaccess"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// onBothDrivers runs a test with connections on loops, whose handshakes the loops
// read as well, and on goroutines.
func onBothDrivers(t *testing.T, edit func(*config.Config), test func(t *testing.T, s *testServer)) {
	for name, goroutines := range map[string]bool{"loops": false, "goroutines": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, startServer(t, func(cfg *config.Config) {
				everything(cfg)
				cfg.WebSocket.GoroutineDriver = goroutines
				edit(cfg)
			}))
		})
	}
}

// onlyClient is refused where its origin is not allowed, else connected, and the last one
// below the limit.
func onlyClient(t *testing.T, url string, header http.Header, connect string) *wstest.Client {
	t.Helper()
	header.Set("Origin", "https://evil.example")
	if c, status := wstest.Handshake(t, url, header); c != nil || status != http.StatusForbidden {
		t.Errorf("origin: %d", status)
	}
	header.Set("Origin", "https://APP.example")
	c, status := wstest.Handshake(t, url, header)
	if c == nil {
		t.Fatalf("handshake: %d", status)
	}
	c.Connect(connect)
	if c, status := wstest.Handshake(t, url, header); c != nil || status != http.StatusServiceUnavailable {
		t.Errorf("above the limit: %d", status)
	}
	return c
}

// TestHandshakesOnBothDrivers: limits, origins and the access log do not depend on
// who reads the handshake.
func TestHandshakesOnBothDrivers(t *testing.T) {
	t.Parallel()
	edit := func(cfg *config.Config) {
		cfg.Client.ConnectionLimit = 1
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
	}
	onBothDrivers(t, edit, func(t *testing.T, s *testServer) {
		url := s.url("/connection/websocket?token=" + tokenSecret) // the query is not logged
		header := http.Header{"X-Real-Ip": {"192.0.2.7"}}
		onlyClient(t, url, header, s.tokenField(jwt.MapClaims{"sub": "u"}))
		for _, status := range []int{403, 101, 503} {
			want := fmt.Sprintf(`"message":"request","method":"GET","status":%d,"path":"/connection/websocket","addr":"192.0.2.7","duration_ms":`, status)
			if !s.logs.Await(func(logs string) bool { return strings.Count(logs, want) == 1 }) {
				t.Fatalf("not one line with %s in the log:\n%s", want, s.logs)
			}
		}
	})
}

// TestHandshakesWithoutAccessLog: where loops take the usual handshakes alone, limits,
// origins and the user of a header are the same.
func TestHandshakesWithoutAccessLog(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", func(cfg *config.Config) {
		everything(cfg)
		cfg.Client.ConnectionLimit = 1
		cfg.Client.AllowedOrigins = []string{"https://app.example"}
		cfg.Client.UserIDHTTPHeader = "X-User"
	})
	url := s.url("/connection/websocket")
	header := http.Header{"X-User": {"u"}}
	c := onlyClient(t, url, header, "")
	if refused := s.app.web.Limits.Refusals(); refused != 1 {
		t.Errorf("%d refused", refused)
	}
	if err := s.app.Node().Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil); err != nil {
		t.Error(err)
	}
	if d := c.Disconnected(); d != protocol.DisconnectForceNoReconnect {
		t.Errorf("the user ended with %v", d)
	}
}

// TestTrickledHandshakes: clients that are silent or trickle their request hinder
// nobody, and a shutdown does not wait for them.
func TestTrickledHandshakes(t *testing.T) {
	t.Parallel()
	onBothDrivers(t, func(*config.Config) {}, func(t *testing.T, s *testServer) {
		var slow []net.Conn
		for i := range 200 {
			nc := must(net.Dial("tcp", s.app.Addr("external")))
			defer nc.Close()
			if i%2 == 0 {
				_, _ = io.WriteString(nc, "GET /connection/websocket HTTP/1.1\r\nHost: a")
			}
			slow = append(slow, nc)
		}
		c := s.connect("u")
		if status, _ := get(t, s.url("/health")); status != http.StatusOK {
			t.Errorf("health: %d", status)
		}
		s.api("info", `{}`)
		if !s.cfg.WebSocket.GoroutineDriver { // net/http waits for requests that have begun
			if err := s.app.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if d := c.Disconnected(); d != protocol.DisconnectShutdown {
				t.Errorf("client ended with %v", d)
			}
			for _, nc := range slow {
				_ = nc.SetDeadline(time.Now().Add(wait.Limit))
				if _, err := nc.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
					t.Fatalf("a slow client's connection ended with %v", err)
				}
			}
		}
		for _, nc := range slow {
			nc.Close()
		}
	})
}

// TestDriversOfNode: the option reaches the node, and the default is loops.
func TestDriversOfNode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("loops watch sockets on Linux alone")
	}
	onBothDrivers(t, func(*config.Config) {}, func(t *testing.T, s *testServer) {
		if onLoops := nodeaccess.Of(s.app.Node()).NextLoop() != nil; onLoops == s.cfg.WebSocket.GoroutineDriver {
			t.Errorf("loops: %v", onLoops)
		}
	})
}
