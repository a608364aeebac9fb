package web

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
)

// server is one with a configuration.
func server(cfg *config.Config) Exposure {
	h := &cfg.HTTPServer
	return Exposure{Config: cfg, Address: h.Address + ":8000", Shared: h.InternalPort == "" && h.InternalAddress == ""}
}

// TestWarnExposed: what clients should not reach is named, with the keys that change it.
func TestWarnExposed(t *testing.T) {
	const port = "http_server.internal_port, http_server.internal_address"
	for name, tt := range map[string]struct {
		edit func(*config.Config)
		want []string
	}{
		"all": {func(cfg *config.Config) {
			cfg.Prometheus.Enabled, cfg.Debug.Enabled, cfg.Swagger.Enabled = true, true, true
		},
			[]string{"http_api /api: " + port, "prometheus /metrics: " + port, "debug /debug/pprof: " + port, "swagger /swagger: " + port}},
		"admin": {func(cfg *config.Config) { cfg.HTTPAPI.Disabled, cfg.Admin.Enabled = true, true }, []string{"admin /: " + port}},
		"admin external": {func(cfg *config.Config) {
			cfg.HTTPServer.InternalPort, cfg.Admin.Enabled, cfg.Admin.External, cfg.Admin.HandlerPrefix = "9000", true, true, "/ops"
		},
			[]string{"admin /ops: admin.external"}},
		"nothing but clients": {func(cfg *config.Config) { cfg.HTTPAPI.Disabled = true }, nil},
		"no clients":          {func(cfg *config.Config) { cfg.WebSocket.Disabled = true }, nil},
		"WebTransport alone":  {func(cfg *config.Config) { cfg.WebSocket.Disabled, cfg.WebTransport.Enabled = true, true }, []string{"http_api /api: " + port}},
		"port of its own":     {func(cfg *config.Config) { cfg.HTTPServer.InternalPort = "9000"; cfg.Prometheus.Enabled = true }, nil},
		"address of its own":  {func(cfg *config.Config) { cfg.HTTPServer.InternalAddress = "10.0.0.1" }, nil},
		"external": {func(cfg *config.Config) { cfg.HTTPServer.InternalPort = "9000"; cfg.HTTPAPI.External = true },
			[]string{"http_api /api: http_api.external"}},
		"external on one port": {func(cfg *config.Config) { cfg.HTTPAPI.External = true }, []string{"http_api /api: " + port + ", http_api.external"}},
		"loopback":             {func(cfg *config.Config) { cfg.HTTPServer.Address = "127.0.0.1" }, nil},
		"loopback 6":           {func(cfg *config.Config) { cfg.HTTPServer.Address = "[::1]" }, nil},
		"localhost":            {func(cfg *config.Config) { cfg.HTTPServer.Address = "localhost" }, nil},
		"one address":          {func(cfg *config.Config) { cfg.HTTPServer.Address = "192.0.2.1" }, []string{"http_api /api: " + port}},
	} {
		cfg := config.DefaultConfig()
		tt.edit(cfg)
		out := new(strings.Builder)
		server(cfg).Warn(logs.To(out, "warn", false))
		var got []string
		for line := range strings.Lines(out.String()) {
			var w map[string]string
			if err := json.Unmarshal([]byte(line), &w); err != nil || w["level"] != "warn" || w["address"] == "" {
				t.Errorf("%s: %s %v", name, line, err)
			}
			got = append(got, fmt.Sprintf("%s %s: %s", w["endpoint"], w["path"], w["keys that change it"]))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestWarnUseless: a page that cannot send requests is named, with the keys that change it.
func TestWarnUseless(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*config.Config)
		want bool
	}{
		"one port":         {func(*config.Config) {}, false},
		"external":         {func(cfg *config.Config) { cfg.HTTPAPI.External = true }, false},
		"ports of its own": {func(cfg *config.Config) { cfg.HTTPServer.InternalPort = "9000" }, false},
		"apart":            {func(cfg *config.Config) { cfg.HTTPServer.InternalPort = "9000"; cfg.HTTPAPI.External = true }, true},
		"no API":           {func(cfg *config.Config) { cfg.HTTPAPI.Disabled = true }, true},
		"no page":          {func(cfg *config.Config) { cfg.HTTPAPI.Disabled, cfg.Swagger.Enabled = true, false }, false},
	} {
		cfg := config.DefaultConfig()
		cfg.Swagger.Enabled = true
		tt.edit(cfg)
		out := new(strings.Builder)
		server(cfg).warnUseless(logs.To(out, "warn", false))
		if got := strings.Contains(out.String(), `"http_api.disabled, http_api.external"`); got != tt.want {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}
