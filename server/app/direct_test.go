package app

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/config"
)

// The API answers publishes without net/http, unless each request is to be logged
// or the listener's connections are not plaintext TCP.
func TestDirectAPI(t *testing.T) {
	for name, test := range map[string]struct {
		edit   func(*config.Config)
		level  string
		direct bool
	}{
		"as usual":          {func(*config.Config) {}, "info", true},
		"access log":        {func(*config.Config) {}, "debug", false},
		"goroutines":        {func(cfg *config.Config) { cfg.WebSocket.GoroutineDriver = true }, "info", true},
		"no API":            {func(cfg *config.Config) { cfg.HTTPAPI.Disabled = true }, "info", false},
		"no WebSocket":      {func(cfg *config.Config) { cfg.WebSocket.Disabled = true }, "info", true},
		"internal listener": {func(cfg *config.Config) { cfg.HTTPServer.InternalAddress = "127.0.0.2" }, "info", false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(test.edit)
			logs := new(logBuffer)
			a, err := New(cfg, Options{Logger: newLogger(logs, test.level, false)})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			if got := a.listeners[0].direct != nil; got != test.direct {
				t.Errorf("direct: %v, want %v", got, test.direct)
			}
			want := http.StatusOK
			if cfg.HTTPAPI.Disabled || len(a.listeners) > 1 {
				want = http.StatusNotFound
			}
			for _, path := range []string{"/api/publish", "/api/info", "/api/publish"} {
				req, err := http.NewRequest(http.MethodPost, "http://"+a.Addr("external")+path, strings.NewReader(`{"channel":"a","data":1}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-API-Key", apiKey)
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != want {
					t.Errorf("%s: %d %s, %v", path, res.StatusCode, body, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := a.Shutdown(ctx); err != nil {
				t.Error(err)
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
	if a.listeners[0].direct == nil {
		t.Fatal("net/http answers publishes")
	}
	publish := fmt.Sprintf("POST /api/publish HTTP/1.1\r\nHost: a\r\nX-API-Key: %s\r\nContent-Length: 24\r\n\r\n"+`{"channel":"a","data":1}`, apiKey)
	info := fmt.Sprintf("POST /api/info HTTP/1.1\r\nHost: a\r\nX-API-Key: %s\r\nContent-Length: 2\r\n\r\n{}", apiKey)
	upgrade := func(first string) {
		nc := must(net.Dial("tcp", a.Addr("external")))
		t.Cleanup(func() { nc.Close() })
		_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
		in := bufio.NewReader(nc)
		for _, exchange := range []struct{ request, want string }{
			{first, "{}}"},
			{churnRequest, "HTTP/1.1 101"},
			{"", "\r\n\r\n"},
			{string(masked(0x1, `{"id":1,"connect":{}}`)), `"id":1`},
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
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+5; time.Sleep(time.Millisecond) {
		if time.Now().After(end) { // those of net/http end a little later
			t.Fatalf("%d goroutines, %d before %d clients", runtime.NumGoroutine(), before, clients)
		}
	}
	if err := a.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
