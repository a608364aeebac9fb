package app

import (
	"errors"
	"strings"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/operators"
	"github.com/gyrohq/gyro/server/internal/operators/admin"
)

// mountAdmin mounts the admin web interface.
func (a *App) mountAdmin(s *site, o Options, exec *api.Executor) error {
	const key = "admin.handler_prefix"
	prefix := strings.TrimSuffix(cleanPrefix(a.cfg.Admin.HandlerPrefix), "/")
	if !a.cfg.Admin.Enabled {
		for _, path := range []string{prefix, prefix + "/", prefix + "/admin", prefix + "/admin/"} {
			if strings.Trim(path, "/") != "" { // at the root the guide tells of the other endpoints
				s.guide.Off[path] = "admin.enabled"
			}
		}
		return nil
	}
	commands, err := httpapi.New(exec, httpapi.Config{ShuttingDown: a.stopping.Load, Observer: a.meters.admin, Logger: a.log})
	if err != nil {
		return err
	}
	h, err := admin.New(admin.Config{
		Prefix: prefix, Settings: func() *config.Admin { return &a.inForce.Load().cfg.Admin }, Logger: a.log,
		Endpoints: operators.Endpoints(operators.Config{
			Node: a.node, Name: nodeName(a.cfg), Version: o.Version, Commands: commands.Legacy(), Recent: o.Recent, Done: a.leaving.Done(),
			InForce:  func() *config.Config { return a.inForce.Load().cfg },
			Channels: func() *channels.Resolver { return a.inForce.Load().Channels },
			Figures:  func() any { return a.meters.registry.Figures() },
			Vitals:   a.vitals, Others: a.operators(),
		}),
	})
	if err != nil {
		return err
	}
	var errs []error
	for path, served := range h.Paths {
		errs = append(errs, s.handleExact(key, path, endpoint{Handler: served, checkHost: true}))
	}
	if h.Rest != nil {
		errs = append(errs, s.handleTree(key, prefix, endpoint{Handler: h.Rest, checkHost: true}))
	}
	return errors.Join(errs...)
}
