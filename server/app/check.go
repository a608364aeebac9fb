package app

import (
	"errors"
	"log/slog"

	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/engine"
)

// Check finds mistakes of a configuration that its validation does not find: keys of tokens
// and addresses of engines that do not parse. It connects to nothing. Errors name the key.
func Check(cfg *config.Config) error {
	log := slog.New(slog.DiscardHandler)
	_, tokens := newSnapshot(cfg, nil, log)
	_, engines := engine.New(cfg, nil, log)
	return errors.Join(tokens, engines)
}
