package app

import (
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/grpcapi"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/web"
)

func (a *App) makeGRPC(exec *api.Executor) error {
	clients, err := a.web.UniGRPC(a.certs)
	if err != nil {
		return err
	}
	commands, err := a.grpcAPI(exec)
	if err != nil {
		return err
	}
	for _, l := range []*web.GRPCListener{clients, commands} {
		if l != nil {
			a.grpc = append(a.grpc, l)
		}
	}
	return nil
}

func (a *App) grpcAPI(exec *api.Executor) (*web.GRPCListener, error) {
	c := &a.cfg.GRPCAPI
	if !c.Enabled {
		return nil, nil
	}
	tls, err := a.certs.Config(web.GRPCAPI+".tls", c.TLS, "h2")
	if err != nil {
		return nil, err
	}
	server, err := grpcapi.New(exec, grpcapi.Config{
		TLS: tls, HandshakeFailed: a.web.HandshakeFailed(web.GRPCAPI), ErrorMode: c.ErrorMode,
		Guard:                 func() *rights.Guard { return a.inForce.Load().grpcSenders },
		MaxReceiveMessageSize: c.MaxReceiveMessageSize, Reflection: c.Reflection, Ready: a.readiness(),
		Observer: a.meters.grpc, Tracer: a.tracer.GRPC(), Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	// Calls that are under way finish.
	return web.NewGRPCListener(web.GRPCAPI, c.Address, c.Port, tls != nil, server, a.cfg.Shutdown.Timeout), nil
}
