package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gyrohq/gyro/server/internal/clients"
	"github.com/gyrohq/gyro/server/internal/config"
)

// Check finds mistakes of a configuration that Validate does not find, such as bad keys of tokens or certificates: it
// makes a server without starting it. For a configuration that is not valid it checks only the parts that decide on
// clients. Errors name the key.
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

// checkPolicy checks the parts that decide on clients.
func checkPolicy(cfg *config.Config, log *slog.Logger) error {
	_, err := newSettings(cfg, clients.Options{Log: log})
	return err
}

// each calls all functions and joins their errors, so that one run reports all mistakes.
func each(parts ...func() error) error {
	var mistakes []error
	for _, part := range parts {
		mistakes = append(mistakes, part())
	}
	return errors.Join(mistakes...)
}
