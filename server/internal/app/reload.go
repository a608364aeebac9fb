package app

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/web"
)

// Reload puts the keys in force that a running server can change (docs/configuration.md, column Reload), and logs them
// and those that need a restart. After an error nothing has changed, except that files of TLS objects were read again.
func (a *App) Reload(cfg *config.Config) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	_, err := a.apply(cfg)
	return err
}

// Reread reads the configuration again and reloads it. Errors are logged too, and show no secret.
func (a *App) Reread() (config.Changes, error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	cfg, warnings, err := a.load()
	var changes config.Changes
	if err == nil {
		changes, err = a.apply(cfg)
	}
	a.meters.reloaded(err)
	if err != nil {
		a.log.Error("configuration is not reloaded, the old one stays in force", "error", err)
		return changes, err
	}
	for _, line := range warnings.Lines() {
		a.log.Warn(line)
	}
	return changes, nil
}

func (a *App) apply(cfg *config.Config) (config.Changes, error) {
	a.certs.Reload()
	if err := cfg.Validate(); err != nil {
		return config.Changes{}, err
	}
	next, changes, err := a.cfg.Reloaded(a.inForce.Load().cfg, cfg)
	if err != nil {
		return config.Changes{}, err
	}
	before := a.inForce.Load().cfg
	if err := a.putInForce(next); err != nil {
		return config.Changes{}, err
	}
	if next.Log != before.Log {
		logs.Of(a.log).Apply(a.log, &next.Log)
	}
	a.inForce.Load().prefetch()
	web.WarnOpen(a.log, &next.GRPCAPI)
	for _, lost := range before.LostSecrets(next, time.Now()) {
		a.log.Warn("tokens of the old secret are not valid after the reload: clients with such tokens are disconnected, and do not reconnect", "key", lost.Key, "reason", lost.Text)
	}
	var applied []any
	if len(changes.Applied) > 0 {
		applied = []any{"applied", strings.Join(changes.Applied, ", ")}
	}
	switch {
	case len(changes.Restart) > 0:
		a.log.Warn("configuration reloaded, but some keys that changed need a restart", append(applied, "keys", strings.Join(changes.Restart, ", "))...)
	case applied == nil:
		a.log.Info("configuration reloaded: nothing has changed")
	default:
		a.log.Info("configuration reloaded: nothing that changed needs a restart", applied...)
	}
	return changes, nil
}

func (a *App) extensions() map[string]api.RPCHandler {
	if a.load == nil {
		return nil
	}
	return map[string]api.RPCHandler{"reload": func(context.Context, []byte) ([]byte, error) {
		changes, err := a.Reread()
		if err != nil {
			return nil, &api.Error{Code: api.ErrBadRequest.Code, Message: "the configuration is not reloaded, the old one stays in force: " + err.Error()}
		}
		return json.Marshal(struct {
			Applied []string `json:"applied"`
			Restart []string `json:"restart"`
		}{orEmpty(changes.Applied), orEmpty(changes.Restart)})
	}}
}

// orEmpty returns a list that JSON shows as [].
func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
