package app

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

// TestFastRoutes: publishes and handshakes do without net/http wherever they can,
// whatever is logged.
func TestFastRoutes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("loops watch no sockets here")
	}
	external := func(cfg *config.Config) {
		cfg.HTTPAPI.External, cfg.HTTPServer.InternalPort = true, "1"
	}
	for name, test := range map[string]struct {
		edit  func(*config.Config)
		level string
		// api and webSocket are how many of 2 publishes and 1 handshake net/http serves.
		api, webSocket int64
	}{
		"as usual":      {func(*config.Config) {}, "info", 0, 0},
		"access log":    {func(*config.Config) {}, "debug", 0, 0},
		"all log":       {func(*config.Config) {}, "trace", 0, 0},
		"goroutines":    {func(cfg *config.Config) { cfg.WebSocket.GoroutineDriver = true }, "info", 0, 1},
		"metrics":       {measured, "info", 0, 0},
		"HTTP/2":        {func(cfg *config.Config) { external(cfg); cfg.HTTPServer.H2CExternal = true }, "info", 0, 0},
		"TLS":           {func(cfg *config.Config) { cfg.HTTPServer.TLS = certificate(1) }, "info", 0, 0},
		"no API":        {func(cfg *config.Config) { cfg.HTTPAPI.Disabled = true }, "info", 2, 0},
		"no WebSocket":  {func(cfg *config.Config) { cfg.WebSocket.Disabled = true }, "info", 0, 1},
		"API elsewhere": {func(cfg *config.Config) { cfg.HTTPServer.InternalAddress = "127.0.0.2" }, "info", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(test.edit)
			out := new(logBuffer)
			a := must(New(cfg, Options{Logger: logs.To(out, test.level, false)}))
			var served atomic.Int64 // by net/http
			next := a.listeners[0].Server.Handler
			a.listeners[0].Server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				next.ServeHTTP(w, r)
			})
			if err := a.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			base := "http://" + a.Addr("external")
			if cfg.HTTPServer.TLS.Enabled {
				base = "https://" + a.Addr("external")
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			for _, expect := range []int64{test.api - test.api/2, test.api} {
				req := must(http.NewRequest(http.MethodPost, base+"/api/publish", strings.NewReader(`{"channel":"a","data":1}`)))
				req.Header.Set("X-API-Key", apiKey)
				do(t, client, req)
				if got := served.Load(); got != expect {
					t.Errorf("net/http served %d publishes, want %d", got, expect)
				}
			}
			if c, status := wstest.Handshake(t, base+"/connection/websocket", nil); c == nil && !cfg.WebSocket.Disabled {
				t.Errorf("handshake: %d", status)
			}
			if got := served.Load() - test.api; got != test.webSocket {
				t.Errorf("net/http served %d handshakes, want %d", got, test.webSocket)
			}
			client.CloseIdleConnections()
			if err := a.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			want := 0
			if test.level != "info" {
				want = 2
			}
			if got := strings.Count(out.String(), `"message":"request","method":"POST","status":200,"path":"/api/publish","addr":"127.0.0.1:`); got != want {
				t.Errorf("%d publishes in the access log, want %d:\n%s", got, want, out)
			}
		})
	}
}

// TestUpgradeOfKeptConnection: a WebSocket that comes as a later request, behind some
// that the API answered and some of net/http's, costs no goroutine where loops are.
func TestUpgradeOfKeptConnection(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("loops watch no sockets here")
	}
	const clients = 30
	cfg := testConfig(func(cfg *config.Config) { cfg.Client.Insecure = true })
	a := must(New(cfg, Options{Logger: discard}))
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	publish := fmt.Sprintf("POST /api/publish HTTP/1.1\r\nHost: a\r\nX-API-Key: %s\r\nContent-Length: 24\r\n\r\n"+`{"channel":"a","data":1}`, apiKey)
	info := fmt.Sprintf("POST /api/info HTTP/1.1\r\nHost: a\r\nX-API-Key: %s\r\nContent-Length: 2\r\n\r\n{}", apiKey)
	upgrade := func(first string) {
		nc := must(net.Dial("tcp", a.Addr("external")))
		t.Cleanup(func() { nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(wait.Limit))
		in := bufio.NewReader(nc)
		for _, exchange := range []struct{ request, want string }{
			{first, "{}}"},
			{churnRequest, "HTTP/1.1 101"},
			{"", "\r\n\r\n"},
			{string(frametest.Masked(frametest.Text(`{"id":1,"connect":{}}`))), `"id":1`},
		} {
			_, _ = io.WriteString(nc, exchange.request)
			if exchange.want == "{}}" && strings.HasPrefix(first, "POST /api/info") {
				exchange.want = "]}}"
			}
			if !readUntil(in, exchange.want) {
				t.Fatalf("no %q came as answer to %q", exchange.want, exchange.request)
			}
		}
	}
	upgrade(publish) // what is made with the first client is there before
	before := runtime.NumGoroutine()
	for i := range clients {
		upgrade([]string{publish, info}[i%2])
	}
	wait.Success(t, "the end of the goroutines of net/http", func() error {
		if n := runtime.NumGoroutine(); n > before+5 {
			return fmt.Errorf("%d goroutines, %d before %d clients", n, before, clients)
		}
		return nil
	})
	if err := a.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
