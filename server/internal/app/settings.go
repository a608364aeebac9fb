package app

import (
	"context"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/clients"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/engine"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/web"
)

// settings are the part of the configuration that decides single operations: commands of clients, requests to the server
// API and new connections. They never change; a reload stores new ones in App.inForce. An operation loads that pointer
// once, so that one configuration decides it.
type settings struct {
	cfg *config.Config
	*clients.Policy
	routes *engine.Assignment
	// httpSenders and grpcSenders know the senders that may use the server API.
	httpSenders, grpcSenders *rights.Guard
}

// newSettings does not set routes and proxies. Errors name the key.
func newSettings(cfg *config.Config, o clients.Options) (s *settings, err error) {
	s = &settings{cfg: cfg}
	if s.Policy, err = clients.NewPolicy(cfg, o); err != nil {
		return nil, err
	}
	if s.httpSenders, err = httpSenders(cfg, o.KeySets); err != nil {
		return nil, err
	}
	s.grpcSenders, err = grpcSenders(cfg, o.KeySets)
	return s, err
}

func httpSenders(cfg *config.Config, sets *jwks.Cache) (*rights.Guard, error) {
	c := &cfg.HTTPAPI
	return rights.New(rights.Config{Section: "http_api", Key: c.Key, Insecure: c.Insecure, Keys: c.Keys, JWKS: c.JWKS, Sets: sets})
}

func grpcSenders(cfg *config.Config, sets *jwks.Cache) (*rights.Guard, error) {
	c := &cfg.GRPCAPI
	return rights.New(rights.Config{Section: web.GRPCAPI, Key: c.Key, Insecure: c.Open(), Keys: c.Keys, JWKS: c.JWKS, Sets: sets})
}

func (s *settings) prefetch() {
	s.Prefetch()
	s.httpSenders.Prefetch()
	s.grpcSenders.Prefetch()
}

// putInForce makes settings and stores them in inForce. After an error nothing has changed.
func (a *App) putInForce(cfg *config.Config) error {
	s, err := newSettings(cfg, clients.Options{
		Node: a.node, KeySets: a.jwks, PreviousKey: a.meters.previous, Status: a.status, InForce: a.policy, Log: a.log,
	})
	if err != nil {
		return err
	}
	var before *proxy.Set
	if old := a.inForce.Load(); old != nil {
		before = old.Backend.Proxies
	}
	proxies, err := proxy.NewSet(cfg, before, a.meters.proxies, a.tracer.Proxies(), a.log)
	if err != nil {
		return err
	}
	b := s.Backend
	b.Proxies, b.State, b.Polled, b.Traced = proxies, a.asked, a.meters.polled, a.tracer != nil
	if s.routes, err = a.engines.Assign(cfg, s.Channels, a.routesInForce()); err != nil {
		proxies.Retire(before)
		return err
	}
	a.inForce.Store(s)
	before.Retire(proxies)
	return nil
}

func (a *App) policy() *clients.Policy { return a.inForce.Load().Policy }

// routesInForce returns nil before the first settings.
func (a *App) routesInForce() *engine.Assignment {
	if s := a.inForce.Load(); s != nil {
		return s.routes
	}
	return nil
}

func (a *App) handlers() gyro.Handlers {
	h := clients.Handlers(a.policy)
	h.Survey = func(ctx context.Context, e gyro.SurveyEvent) (gyro.SurveyReply, error) {
		return a.vitals.Answer(ctx, e)
	}
	return h
}

// newNotifications returns nil if there are no notifications.
func (a *App) newNotifications() (*notify.Receiver, error) {
	return notify.New(a.cfg, notify.Config{Notify: a.node.Polls().Notify, Observe: a.meters.notified, Logger: a.log})
}
