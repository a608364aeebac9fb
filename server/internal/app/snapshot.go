package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/backend"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/engine"
	"github.com/gyrohq/gyro/server/internal/engine/userstatus"
	"github.com/gyrohq/gyro/server/internal/proxy"
)

// snapshot is the part of the configuration that decides single operations: commands of
// clients, requests to the server API and new connections. It is made and checked as a whole
// and never changes. A reload stores a new one in App.inForce. Each operation loads that
// pointer once, so that one configuration alone decides it.
type snapshot struct {
	cfg      *config.Config
	channels *channels.Resolver
	routes   *engine.Routes
	rpc      *channels.RPC
	connect  *auth.Verifier
	// subscribe is connect unless subscription tokens have a section of their own.
	subscribe *auth.Verifier
	backend   *backend.Backend
	polls     map[*channels.Options]*channel.SharedPoll
	// httpSenders and grpcSenders know who may use the server API.
	httpSenders, grpcSenders *rights.Guard
	status                   *userstatus.Keeper
	node                     *gyro.Node
	log                      *slog.Logger
}

// newSnapshot returns the snapshot of a validated configuration, without routes and proxies. previous is told of tokens that the
// previous secret verifies; it may be nil. Errors name the key.
func newSnapshot(cfg *config.Config, node *gyro.Node, sets *jwks.Cache, previous func(), log *slog.Logger) (*snapshot, error) {
	s := &snapshot{cfg: cfg, rpc: channels.NewRPC(cfg.RPC), node: node, log: log}
	var err error
	if s.channels, err = channels.NewResolver(cfg.Channel, cfg.Client.UserPersonalChannel); err != nil {
		return nil, err
	}
	s.backend = &backend.Backend{Channels: s.channels, Log: log}
	if s.connect, err = auth.NewVerifier(cfg.Client.Token, authOptions(cfg, sets, previous, "client.token")); err != nil {
		return nil, fmt.Errorf("client.token.%w", err)
	}
	s.subscribe = s.connect
	if own := &cfg.Client.SubscriptionToken; own.Enabled {
		if s.subscribe, err = auth.NewVerifier(own.Token, authOptions(cfg, sets, previous, "client.subscription_token")); err != nil {
			return nil, fmt.Errorf("client.subscription_token.%w", err)
		}
	}
	h, g := &cfg.HTTPAPI, &cfg.GRPCAPI
	if s.httpSenders, err = rights.New(rights.Config{
		Section: "http_api", Key: h.Key, Insecure: h.Insecure, Keys: h.Keys, JWKS: h.JWKS, Sets: sets,
	}); err != nil {
		return nil, err
	}
	s.grpcSenders, err = rights.New(rights.Config{
		Section: grpcAPIName, Key: g.Key, Insecure: g.Open(), Keys: g.Keys, JWKS: g.JWKS, Sets: sets,
	})
	return s, err
}

// authOptions are those of the verifier for a section of the configuration.
func authOptions(cfg *config.Config, sets *jwks.Cache, previous func(), section string) auth.Options {
	return auth.Options{Section: section, JWKS: sets, SkipSignature: cfg.Client.SkipTokenSignature, Previous: previous}
}

// prefetch begins to fetch the keys of tokens.
func (s *snapshot) prefetch() {
	s.connect.Prefetch()
	s.subscribe.Prefetch()
	s.httpSenders.Prefetch()
	s.grpcSenders.Prefetch()
}

// publish puts the snapshot of a configuration in force. After an error nothing has changed.
func (a *App) publish(cfg *config.Config) error {
	s, err := newSnapshot(cfg, a.node, a.jwks, a.meters.previous, a.log)
	if err != nil {
		return err
	}
	var before *proxy.Set
	if old := a.inForce.Load(); old != nil {
		before = old.backend.Proxies
	}
	proxies, err := proxy.NewSet(cfg, before, a.meters.proxies, a.tracer.Proxies(), a.log)
	if err != nil {
		return err
	}
	s.backend.Proxies, s.backend.State, s.backend.Polled = proxies, a.asked, a.meters.polled
	s.backend.Grace = cfg.Client.RefreshProxyGrace
	s.backend.Traced, s.status = a.tracer != nil, a.status
	s.polls = polls(&cfg.SharedPoll, s.channels, &a.inForce)
	if s.routes, err = a.engines.Routes(cfg, s.channels, a.routesInForce()); err != nil {
		proxies.Retire(before)
		return err
	}
	a.inForce.Store(s)
	before.Retire(proxies)
	return nil
}

// routesInForce returns nil before the first snapshot.
func (a *App) routesInForce() *engine.Routes {
	if s := a.inForce.Load(); s != nil {
		return s.routes
	}
	return nil
}

// handlers answer the node's questions about clients, and those of other nodes.
func (a *App) handlers() gyro.Handlers {
	h := handlers(&a.inForce)
	h.Survey = func(ctx context.Context, e gyro.SurveyEvent) (gyro.SurveyReply, error) {
		return a.vitals.Answer(ctx, e)
	}
	return h
}

func handlers(inForce *atomic.Pointer[snapshot]) gyro.Handlers {
	return gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			s := inForce.Load()
			reply, err := s.connecting(ctx, e)
			if err == nil && reply.Credentials != nil {
				s.status.Connected(reply.Credentials.UserID)
			}
			return reply, err
		},
		Subscribe:     answer(inForce, (*snapshot).subscribing),
		Publish:       answer(inForce, (*snapshot).publishing),
		MapChange:     answer(inForce, (*snapshot).changing),
		Presence:      answer(inForce, (*snapshot).presence),
		PresenceStats: answer(inForce, (*snapshot).presenceStats),
		History:       answer(inForce, (*snapshot).history),
		CacheEmpty: func(ctx context.Context, e gyro.CacheEmptyEvent) (gyro.CacheEmptyReply, error) {
			return inForce.Load().cacheEmpty(ctx, e)
		},
		RPC:        answer(inForce, (*snapshot).call),
		Refresh:    answer(inForce, (*snapshot).refresh),
		SubRefresh: answer(inForce, (*snapshot).subRefresh),
	}
}

// answer returns a handler that calls a method of the snapshot that is in force when it is called.
func answer[E, R any](
	inForce *atomic.Pointer[snapshot], by func(*snapshot, context.Context, *gyro.Client, E) (R, error),
) func(context.Context, *gyro.Client, E) (R, error) {
	return func(ctx context.Context, c *gyro.Client, e E) (R, error) { return by(inForce.Load(), ctx, c, e) }
}
