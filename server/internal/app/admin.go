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
	"github.com/gyrohq/gyro/server/internal/web"
)

func (a *App) mountAdmin(o Options, exec *api.Executor) error {
	const key = "admin.handler_prefix"
	prefix := strings.TrimSuffix(web.CleanPrefix(a.cfg.Admin.HandlerPrefix), "/")
	if !a.cfg.Admin.Enabled {
		a.web.AdminOff(prefix)
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
	s := a.web.SiteFor(a.cfg.Admin.External)
	var errs []error
	for path, served := range h.Paths {
		errs = append(errs, s.HandleExact(key, path, web.Endpoint{Handler: served, CheckHost: true}))
	}
	if h.Rest != nil {
		errs = append(errs, s.HandleTree(key, prefix, web.Endpoint{Handler: h.Rest, CheckHost: true}))
	}
	return errors.Join(errs...)
}
