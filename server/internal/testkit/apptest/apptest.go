// Package apptest starts whole servers for tests.
package apptest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/app"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Keys of the servers' configurations.
const (
	TokenSecret = "token-secret"
	APIKey      = "api-key"
)

// Start starts a server on a free port of 127.0.0.1, with a secret and an API key, until the test ends.
func Start(t testing.TB, edit func(*config.Config)) (*config.Config, *app.App) {
	t.Helper()
	cfg := config.DefaultConfig()
	cfg.HTTPServer.Address, cfg.HTTPServer.Port = "127.0.0.1", 0
	cfg.Client.Token.HMACSecretKey, cfg.HTTPAPI.Key = TokenSecret, APIKey
	// A client on a busy machine is late.
	cfg.Client.StaleCloseDelay, cfg.Client.PongTimeout = wait.Limit, cfg.Client.PingInterval-time.Second
	edit(cfg)
	server, err := app.New(cfg, app.Options{Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = server.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return cfg, server
}
