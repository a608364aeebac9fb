package app

import (
	"context"
	"io"
	"net/http"
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
		"goroutines":        {func(cfg *config.Config) { cfg.WebSocket.GoroutineDriver = true }, "info", false},
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
			if err := a.Start(); err != nil {
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
