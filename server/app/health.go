package app

import (
	"errors"
	"strings"

	"github.com/gyrohq/gyro/server/api/httpapi"
)

// mountHealth mounts the health endpoints: PREFIX/live and PREFIX/ready, and PREFIX
// itself, which answers like the one that health.mode names.
func (a *App) mountHealth(s *site) error {
	const key = "health.handler_prefix"
	c := &a.cfg.Health
	live := endpoint{Handler: httpapi.Live(), checkHost: true}
	ready := endpoint{Handler: httpapi.Ready(a.node.Health), checkHost: true}
	byMode := ready
	if c.Mode == "live" {
		byMode = live
	}
	below := strings.TrimSuffix(cleanPrefix(c.HandlerPrefix), "/")
	err := s.handle(key, c.HandlerPrefix, byMode)
	if err == nil {
		err = errors.Join(s.handle(key, below+"/live", live), s.handle(key, below+"/ready", ready))
	}
	return err
}

// readiness returns what the health service of gRPC asks, which answers like the endpoint that
// health.mode names: nil if it answers for the process alone.
func (a *App) readiness() func() error {
	if a.cfg.Health.Mode == "live" {
		return nil
	}
	return func() error { return httpapi.Failing(a.node.Health()) }
}
