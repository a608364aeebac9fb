package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gyrohq/gyro/server/internal/clients"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Check finds mistakes of a configuration that its validation does not find: keys of tokens, certificates, paths of
// endpoints, addresses of engines that do not parse. It makes the server without starting it, so it finds the mistakes
// that a start would find before it connects to anything. If the configuration is not valid, Check makes no server, and
// looks only at the parts that decide on clients. Errors name the key.
func Check(cfg *config.Config) error {
	log := slog.New(slog.DiscardHandler)
	if cfg.Validate() != nil {
		return checkPolicy(cfg, log)
	}
	a, err := New(cfg, Options{Logger: log})
	if err != nil {
		return err
	}
	return a.Shutdown(context.Background())
}

// checkPolicy finds mistakes in the parts that decide on clients, where other mistakes prevent a server.
func checkPolicy(cfg *config.Config, log *slog.Logger) error {
	_, err := newSettings(cfg, clients.Options{Log: log})
	return err
}

// each calls all functions and joins their errors, so that one look tells all mistakes of a configuration.
func each(parts ...func() error) error {
	var mistakes []error
	for _, part := range parts {
		mistakes = append(mistakes, part())
	}
	return errors.Join(mistakes...)
}
