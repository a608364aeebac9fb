package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/auth"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/engine"
	"github.com/gyrohq/gyro/server/namespace"
)

// snapshot is what the configuration says about single operations: of clients, of the
// server API, and of new connections. It is made and checked as a whole and never changes.
// A reload publishes another one by the one pointer App.inForce. Each operation loads that
// pointer once, so that no operation is decided by parts of two configurations.
type snapshot struct {
	cfg      *config.Config
	channels *namespace.Resolver
	routes   *engine.Routes
	rpc      *namespace.RPC
	connect  *auth.Verifier
	// subscribe is connect unless subscription tokens have a section of their own.
	subscribe *auth.Verifier
	node      *gyro.Node
	log       *slog.Logger
}

// newSnapshot returns the snapshot of a validated configuration, without routes. Errors
// name the key.
func newSnapshot(cfg *config.Config, node *gyro.Node, log *slog.Logger) (*snapshot, error) {
	s := &snapshot{cfg: cfg, rpc: namespace.NewRPC(cfg.RPC), node: node, log: log}
	var err error
	if s.channels, err = namespace.NewResolver(cfg.Channel); err != nil {
		return nil, err
	}
	if s.connect, err = auth.NewVerifier(cfg.Client.Token, authOptions(cfg)); err != nil {
		return nil, fmt.Errorf("client.token.%w", err)
	}
	s.subscribe = s.connect
	if own := &cfg.Client.SubscriptionToken; own.Enabled {
		if s.subscribe, err = auth.NewVerifier(own.Token, authOptions(cfg)); err != nil {
			return nil, fmt.Errorf("client.subscription_token.%w", err)
		}
	}
	return s, nil
}

func authOptions(cfg *config.Config) auth.Options {
	return auth.Options{SkipSignature: cfg.Client.SkipTokenSignature}
}

// publish puts the snapshot of a configuration in force. After an error everything is as
// before.
func (a *App) publish(cfg *config.Config) error {
	s, err := newSnapshot(cfg, a.node, a.log)
	if err != nil {
		return err
	}
	if s.routes, err = a.engines.Routes(cfg, s.channels, a.routesInForce()); err != nil {
		return err
	}
	a.inForce.Store(s)
	return nil
}

// routesInForce returns nil before the first snapshot.
func (a *App) routesInForce() *engine.Routes {
	if s := a.inForce.Load(); s != nil {
		return s.routes
	}
	return nil
}

// channelsInForce is where a command of the server API finds the options of channels.
func (a *App) channelsInForce() api.Channels { return a.inForce.Load() }

// connectionLimit is client.connection_limit.
func (a *App) connectionLimit() int { return a.inForce.Load().cfg.Client.ConnectionLimit }

// Reload takes over what can change while the server runs (config.md 3.4), and logs the
// keys that cannot. After an error everything is as before.
func (a *App) Reload(cfg *config.Config) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if err := cfg.Validate(); err != nil {
		return err
	}
	next, restart, err := a.cfg.Reloaded(cfg)
	if err != nil {
		return err
	}
	if err := a.publish(next); err != nil {
		return err
	}
	if len(restart) > 0 {
		a.log.Warn("keys of the configuration changed that take effect at a restart only", "keys", strings.Join(restart, ", "))
	}
	return nil
}

// handlers answer the node's questions about clients, each by the snapshot that is in force
// when it comes.
func handlers(inForce *atomic.Pointer[snapshot]) gyro.Handlers {
	presence := func(_ context.Context, c *gyro.Client, e gyro.PresenceEvent) (gyro.PresenceReply, error) {
		return gyro.PresenceReply{}, inForce.Load().presence(c, e)
	}
	return gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return inForce.Load().connecting(ctx, e)
		},
		Subscribe: func(_ context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return inForce.Load().subscribing(c, e)
		},
		Publish: func(_ context.Context, c *gyro.Client, e gyro.PublishEvent) (gyro.PublishReply, error) {
			return inForce.Load().publishing(c, e)
		},
		Presence:      presence,
		PresenceStats: presence,
		History: func(_ context.Context, c *gyro.Client, e gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, inForce.Load().history(c, e)
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			return inForce.Load().call(e)
		},
		Refresh: func(ctx context.Context, c *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
			return inForce.Load().refresh(ctx, c, e)
		},
		SubRefresh: func(_ context.Context, c *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
			return inForce.Load().subRefresh(c, e)
		},
	}
}
