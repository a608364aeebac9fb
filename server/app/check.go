package app

import (
	"errors"
	"log/slog"

	"github.com/gyrohq/gyro/server/certs"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/consumers"
	"github.com/gyrohq/gyro/server/dictionary"
	"github.com/gyrohq/gyro/server/engine"
	"github.com/gyrohq/gyro/server/notify"
	"github.com/gyrohq/gyro/server/telemetry"
	"github.com/gyrohq/gyro/server/userstatus"
)

// Check finds mistakes of a configuration that its validation does not find: keys of tokens,
// certificates, and addresses of engines that do not parse. It connects to nothing. Errors name
// the key.
func Check(cfg *config.Config) error {
	log := slog.New(slog.DiscardHandler)
	_, tokens := newSnapshot(cfg, nil, nil, nil, log)
	_, engines := engine.New(cfg, nil, log)
	store, secure := certs.New(cfg.HTTPServer.TLSAutocert, log)
	if secure == nil {
		_, _, secure = listenerTLS(&cfg.HTTPServer, store)
	}
	if secure == nil && cfg.UniGRPC.Enabled {
		_, secure = store.Config(uniGRPCName+".tls", cfg.UniGRPC.TLS)
	}
	if secure == nil && cfg.GRPCAPI.Enabled {
		_, secure = store.Config(grpcAPIName+".tls", cfg.GRPCAPI.TLS)
	}
	_, dictionaries := dictionary.Load(cfg.WebSocket.Dictionaries)
	_, traces := telemetry.New(telemetry.Config{OpenTelemetry: &cfg.OpenTelemetry, Logger: log})
	_, notifications := notify.New(cfg, notify.Config{Logger: log})
	_, status := userstatus.New(cfg, userstatus.Config{Logger: log})
	return errors.Join(tokens, engines, secure, dictionaries, consumers.Check(cfg), traces, notifications, status)
}
