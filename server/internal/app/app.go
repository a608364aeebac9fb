// Package app builds the server from its configuration: a node, its engines, its handlers and its listeners.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/auth/jwks"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/clients"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/engine"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
	"github.com/gyrohq/gyro/server/internal/engine/userstatus"
	"github.com/gyrohq/gyro/server/internal/observe/logs"
	"github.com/gyrohq/gyro/server/internal/observe/telemetry"
	"github.com/gyrohq/gyro/server/internal/operators"
	"github.com/gyrohq/gyro/server/internal/queues/sources"
	"github.com/gyrohq/gyro/server/internal/transports/dictionary"
	"github.com/gyrohq/gyro/server/internal/web"
	"github.com/gyrohq/gyro/server/internal/web/certs"
)

// Options of an App beside its configuration.
type Options struct {
	// Version is told to clients and in node info.
	Version string
	// Logger is wrapped by logging.Wrap; nil: slog.Default().
	Logger *slog.Logger
	// Recent, if set, has the log lines for the admin interface.
	Recent *logs.Recent
	// Pages are served on the external listener, by path.
	Pages map[string]http.Handler
	// KnowsHost, if set, decides by the Host of a request whether Pages and the health endpoint answer it, else 403.
	KnowsHost func(host string) bool
	// Load reads the configuration again. Reread must not be called without it.
	Load func() (*config.Config, config.Warnings, error)
}

// App is a server. Start it once, then wait for Done or call Shutdown.
type App struct {
	cfg         *config.Config
	log         *slog.Logger
	engines     *engine.Set
	node        *gyro.Node
	meters      meters
	tracer      *telemetry.Tracer // nil: nothing is traced
	taps        *operators.Taps
	snapshots   *operators.Snapshots
	vitals      *operators.Cluster
	web         *web.Web
	certs       *certs.Store
	jwks        *jwks.Cache        // the keys of tokens that were fetched
	stopRunning context.CancelFunc // ends the goroutines of background
	listeners   []*web.Listener
	grpc        []*web.GRPCListener // the enabled ones
	consumers   *sources.Consumers
	notified    *notify.Receiver    // nil: there are no notifications of shared poll keys
	status      *userstatus.Manager // nil: the status of users is not kept
	failed      chan error
	withdrawn   atomic.Bool // not ready, as a shutdown has begun
	stopping    atomic.Bool
	leaving     context.Context // ends when Shutdown begins
	leave       context.CancelFunc
	serving     sync.WaitGroup
	reserve     web.Reserve
	inForce     atomic.Pointer[settings] // never nil after New
	asked       *clients.State
	reloading   sync.Mutex
	load        func() (*config.Config, config.Warnings, error) // nil: there is nothing to read again
}

// New validates the configuration and builds a server from it. Nothing listens yet. Errors name the key.
func New(cfg *config.Config, o Options) (*App, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o.Logger = logging.Wrap(o.Logger)
	a := &App{
		cfg: cfg, log: o.Logger, load: o.Load, failed: make(chan error, 4+len(cfg.Consumers)), stopRunning: func() {},
		jwks: jwks.NewCache(o.Logger), asked: clients.NewState(),
	}
	a.reserve.Logger = o.Logger
	a.leaving, a.leave = context.WithCancel(context.Background())
	endpoints := web.Config{
		Settings: cfg, KnowsHost: o.KnowsHost, Log: a.log,
		ConnectionLimit: func() int { return a.inForce.Load().cfg.Client.ConnectionLimit },
	}
	err := each(
		func() (err error) {
			a.tracer, err = telemetry.New(telemetry.Config{OpenTelemetry: &cfg.OpenTelemetry, Version: o.Version, Logger: o.Logger})
			return err
		},
		func() (err error) { a.meters, err = a.newMeters(o.Version); return err },
		func() (err error) {
			if endpoints.Origins, err = config.NewOrigins(cfg.Client.AllowedOrigins); err != nil {
				return fmt.Errorf("client.allowed_origins: %w", err)
			}
			return nil
		},
		func() (err error) {
			endpoints.Dictionaries, err = dictionary.Load(cfg.WebSocket.Dictionaries)
			return err
		},
		func() (err error) { a.engines, err = engine.New(cfg, a.routesInForce, o.Logger); return err },
		func() (err error) { a.certs, err = certs.New(cfg.HTTPServer.TLSAutocert, o.Logger); return err },
	)
	if err != nil {
		return nil, errors.Join(err, checkPolicy(cfg, o.Logger))
	}
	if a.node, err = gyro.New(a.nodeConfig(o)); err != nil {
		return nil, err
	}
	a.taps, a.vitals = operators.NewTaps(a.node.Inspect(), o.Logger), operators.NewCluster(ready{a.node, a}, a.meters.registry.Charted, a.meters.charts)
	a.snapshots = operators.NewSnapshots(a.leaving, a.node.Inspect(), o.Logger)
	if err := each(
		func() (err error) {
			a.status, err = userstatus.New(cfg, userstatus.Config{Node: a.node, Observe: a.meters.status, Logger: o.Logger})
			return err
		},
		func() error { return a.putInForce(cfg) },
		func() (err error) { a.consumers, err = a.newConsumers(); return err },
		func() (err error) { a.notified, err = a.newNotifications(); return err },
	); err != nil {
		return nil, err
	}
	exec := a.newExecutor()
	endpoints.Node, endpoints.Counter = a.node, a.meters.requestCounter()
	a.web = web.New(endpoints)
	a.meters.watch(a)
	if err := each(
		func() error { return a.mount(o, exec) },
		func() error { return a.makeGRPC(exec) },
		func() (err error) { a.listeners, err = a.web.Listeners(a.certs); return err },
	); err != nil {
		return nil, err
	}
	return a, nil
}

// Start connects to the engines, runs the node and opens the listeners. If ctx ends, it stops trying to reach Redis and
// NATS. After an error, nothing is left running.
func (a *App) Start(ctx context.Context) error {
	if err := startAll(ctx, a.parts()); err != nil {
		return err
	}
	a.background()
	return nil
}

func (a *App) open(context.Context) (err error) {
	var opened []func() error // functions that close the opened listeners
	defer func() {
		if err == nil {
			return
		}
		for _, closes := range opened {
			err = errors.Join(err, closes())
		}
	}()
	for _, g := range a.grpc {
		if err := g.Open(&a.reserve); err != nil {
			return err
		}
		opened = append(opened, g.Close)
	}
	for _, l := range a.listeners {
		if err := l.Open(&a.reserve); err != nil {
			return err
		}
		opened = append(opened, l.Close)
	}
	return nil
}

func (a *App) serve(f func() error) {
	a.serving.Go(func() {
		if err := f(); err != nil {
			a.failed <- err
		}
	})
}

// Failed reports each listener and each consumer that stopped before Shutdown was called.
func (a *App) Failed() <-chan error { return a.failed }

// Addr returns the address of a started listener, "external", "internal", "uni_grpc" or "grpc_api", with the port that
// the system chose for port 0; "" if there is no such listener.
func (a *App) Addr(name string) string {
	for _, g := range a.grpc {
		if g.Name == name {
			return g.Address()
		}
	}
	for _, l := range a.listeners {
		if l.Name == name {
			return l.Address()
		}
	}
	return ""
}

// Node of the server.
func (a *App) Node() *gyro.Node { return a.node }

// Shutdown reports for shutdown.delay that the node is not ready. Then it stops accepting, disconnects all clients with
// 3001, spread over shutdown.drain_time, and waits for requests in progress. If ctx ends, it cuts them off and returns
// its error. It may be called again, and without Start.
func (a *App) Shutdown(ctx context.Context) error {
	err := stopAll(ctx, a.parts())
	_ = logging.Flush(a.log) // a log that cannot be written does not fail the shutdown
	return err
}

// closeListeners closes the listeners in the background, the internal one after drained, so that probes and Prometheus
// observe the drain. It returns a function that waits for the HTTP listeners.
func (a *App) closeListeners(ctx context.Context, drained <-chan struct{}) func() error {
	for _, g := range a.grpc {
		g.Server.Stop()
	}
	errs := make([]error, len(a.listeners))
	var wg sync.WaitGroup
	for i, l := range a.listeners {
		wg.Go(func() {
			if l.Name == web.InternalListener {
				<-drained
			}
			errs[i] = l.Shutdown(ctx)
		})
	}
	return func() error {
		wg.Wait()
		return errors.Join(errs...)
	}
}

func (a *App) mount(o Options, exec *api.Executor) error {
	return each(
		a.web.MountTransports,
		a.web.MountInit,
		func() error { return a.web.MountHealth(a.health) },
		a.mountMetrics,
		a.web.MountProfiles,
		a.web.MountSwagger,
		func() error { return a.mountAdmin(o, exec) },
		func() error { return a.mountAPI(exec) },
		func() error { return a.web.MountPages(o.Pages) },
	)
}

func (a *App) mountMetrics() error {
	if a.meters.registry == nil || !a.cfg.Prometheus.Enabled {
		return nil
	}
	return a.web.Internal.Handle("prometheus.handler_prefix", a.cfg.Prometheus.HandlerPrefix, web.Endpoint{Handler: a.meters.registry.Handler()})
}

func (a *App) newExecutor() *api.Executor {
	return a.executor(a.tracer.Node(a.meters.apiNode(api.NodeOf(a.node))))
}

func (a *App) executor(node api.Node) *api.Executor {
	resolver := func() *channels.Resolver { return a.inForce.Load().Channels }
	c := api.Config{
		Node: node, Channels: resolver, Insecure: func() bool { return a.inForce.Load().cfg.Client.Insecure },
		Keyed:     &api.KeyedCommands{Node: a.node, Channels: resolver},
		BatchSize: a.engines.Broker.Describe().BatchSize(), Logger: a.log, RPC: a.extensions(),
	}
	if a.status != nil {
		c.Statuses = a.status
	}
	return api.NewExecutor(c)
}

func (a *App) newConsumers() (*sources.Consumers, error) {
	node, commands, meter := a.meters.consumers(api.NodeOf(a.node))
	return sources.New(sources.Config{
		List: a.cfg.Consumers, Commands: commands, Meter: meter, Tracer: a.tracer.Consumers(), Logger: a.log,
		Executor: a.executor(a.tracer.Node(node)),
	})
}

// operators returns the endpoints of the HTTP API for operators, by name. Only senders with all rights may use them.
func (a *App) operators() map[string]http.Handler {
	control := logs.Of(a.log)
	return map[string]http.Handler{
		"trace": a.taps, "snapshot": a.snapshots, "log_level": logs.LevelHandler(control, a.log), "refusals": logs.RefusalsHandler(control),
	}
}

func (a *App) mountAPI(exec *api.Executor) error {
	c := &a.cfg.HTTPAPI
	if c.Disabled {
		return nil
	}
	h, err := httpapi.New(exec, httpapi.Config{
		Prefix: c.HandlerPrefix, Guard: func() *rights.Guard { return a.inForce.Load().httpSenders },
		ErrorMode: c.ErrorMode, ShuttingDown: a.stopping.Load, Observer: a.meters.http, Logger: a.log,
		Operators: a.operators(), Tracer: a.tracer.HTTP(web.CleanPrefix(c.HandlerPrefix)),
	})
	if err != nil {
		return err
	}
	return a.web.MountAPI(h.Patterns(), web.Endpoint{Handler: h, Routes: h.Routes()})
}
