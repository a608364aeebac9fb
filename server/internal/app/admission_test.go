package app

import (
	"net/http"
	"testing"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

// TestAdmission: 503 for WebSocket and init, and nothing else.
func TestAdmission(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		everything(cfg)
		cfg.Client.ConnectionLimit = 1
	})
	s.connect("u")
	if c, status := wstest.Handshake(t, s.url("/connection/websocket"), nil); c != nil || status != http.StatusServiceUnavailable {
		t.Errorf("WebSocket: %d", status)
	}
	if status, _ := get(t, s.url("/connection/init")); status != http.StatusServiceUnavailable {
		t.Errorf("init: %d", status)
	}
	if status, _ := get(t, s.url("/health")); status != http.StatusOK {
		t.Errorf("health: %d", status)
	}
	s.api("info", `{}`)
}
