// Package app builds the server from its configuration: a node, its engines, its handlers
// and its listeners.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/rights"
	"github.com/gyrohq/gyro/server/internal/app/internal/admission"
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
	"github.com/gyrohq/gyro/server/internal/operators/expression"
	"github.com/gyrohq/gyro/server/internal/queues/sources"
	"github.com/gyrohq/gyro/server/internal/transports/dictionary"
	"github.com/gyrohq/gyro/server/internal/web/certs"
	"github.com/gyrohq/gyro/server/internal/web/origin"
	"github.com/gyrohq/gyro/server/internal/web/profiles"
	"github.com/gyrohq/gyro/server/internal/web/reserve"
	"github.com/gyrohq/gyro/transport/websocket"
)

// Options of an App beside its configuration.
type Options struct {
	// Version of the server; told to clients and in node info.
	Version string
	// Logger is wrapped by logging.Wrap; nil: slog.Default().
	Logger *slog.Logger
	// Recent, if set, has the lines of the log that the admin interface shows.
	Recent *logs.Recent
	// Pages are served on the external listener, by their paths.
	Pages map[string]http.Handler
	// KnowsHost, if set, decides by the Host of a request whether Pages and the health
	// endpoint answer it. What it refuses gets 403.
	KnowsHost func(host string) bool
	// Load reads the configuration again, for Reread, which must not be called if it is nil.
	Load func() (*config.Config, config.Warnings, error)
}

// App is a server. Start it once, then wait for Done or call Shutdown.
type App struct {
	cfg         *config.Config
	log         *slog.Logger
	engines     *engine.Set
	node        *gyro.Node
	origins     *origin.Matcher
	meters      meters
	tracer      *telemetry.Tracer // nil: nothing is traced
	taps        *operators.Taps
	snapshots   *operators.Snapshots
	vitals      *operators.Cluster
	limits      *admission.Limits
	certs       *certs.Store
	jwks        *jwks.Cache            // the keys of tokens that were fetched
	stopRunning context.CancelFunc     // ends what background has started
	knowsHost   func(host string) bool // nil: any
	listeners   []*listener
	grpc        []*grpcListener // those that are enabled
	consumers   *sources.Consumers
	notified    *notify.Receiver   // nil: there are no notifications of shared poll keys
	status      *userstatus.Keeper // nil: the status of users is not kept
	failed      chan error
	withdrawn   atomic.Bool // not ready, as a shutdown has begun
	stopping    atomic.Bool
	leaving     context.Context // ends when Shutdown begins
	leave       context.CancelFunc
	serving     sync.WaitGroup
	reserve     reserve.Reserve
	inForce     atomic.Pointer[settings] // never nil after New
	asked       *clients.State
	reloading   sync.Mutex
	load        func() (*config.Config, config.Warnings, error) // nil: there is nothing to read again
	// bodyLimits are the keys that bound the bodies of requests, by path. It is complete when
	// New returns.
	bodyLimits map[string]string
	// dictionaries are those of WebSocket clients.
	dictionaries []*websocket.Dictionary
}

// New validates the configuration and builds a server from it; nothing listens yet. Errors
// name the key that is wrong.
func New(cfg *config.Config, o Options) (*App, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	o.Logger = logging.Wrap(o.Logger)
	a := &App{
		cfg: cfg, log: o.Logger, knowsHost: o.KnowsHost, load: o.Load, failed: make(chan error, 4+len(cfg.Consumers)), stopRunning: func() {},
		bodyLimits: make(map[string]string), jwks: jwks.NewCache(o.Logger), asked: clients.NewState(),
	}
	a.reserve.Logger = o.Logger
	a.leaving, a.leave = context.WithCancel(context.Background())
	err := each(
		func() (err error) {
			a.tracer, err = telemetry.New(telemetry.Config{OpenTelemetry: &cfg.OpenTelemetry, Version: o.Version, Logger: o.Logger})
			return err
		},
		func() (err error) { a.meters, err = a.newMeters(o.Version); return err },
		func() (err error) {
			if a.origins, err = origin.New(cfg.Client.AllowedOrigins); err != nil {
				return fmt.Errorf("client.allowed_origins: %w", err)
			}
			return nil
		},
		func() (err error) { a.dictionaries, err = dictionary.Load(cfg.WebSocket.Dictionaries); return err },
		func() (err error) { a.engines, err = engine.New(cfg, a.routesInForce, o.Logger); return err },
		func() (err error) { a.certs, err = certs.New(cfg.HTTPServer.TLSAutocert, o.Logger); return err },
	)
	if err != nil {
		return nil, errors.Join(err, checkPolicy(cfg, o.Logger))
	}
	if a.node, err = gyro.New(a.nodeConfig(o)); err != nil {
		return nil, err
	}
	a.taps, a.vitals = operators.NewTaps(a.node.Inspect(), o.Logger), operators.NewCluster(ready{a.node, a}, a.meters.registry.Charted, a.meters.kept)
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
	external, internal, err := a.routes(o, exec)
	if err := each(
		func() error { return err },
		func() error { return a.makeGRPC(exec) },
		func() (err error) {
			a.listeners, err = makeListeners(cfg, a.certs, external, internal, o.Logger)
			return err
		},
	); err != nil {
		return nil, err
	}
	if !cfg.WebSocket.GoroutineDriver {
		for _, l := range a.listeners {
			l.loops = a.node
		}
	}
	return a, nil
}

// nodeConfig returns the configuration of the node, most of which is the section client.
func (a *App) nodeConfig(o Options) gyro.Config {
	cfg, c := a.cfg, &a.cfg.Client
	observer := a.meters.observer()
	observer.Refused = a.nameKey
	if a.tracer != nil && cfg.OpenTelemetry.Client {
		observer.Effect = a.tracer.Effect
	}
	return gyro.Config{
		Handlers:               a.handlers(),
		Observer:               observer,
		Broker:                 a.engines.Broker,
		Presence:               a.engines.Presence,
		Controller:             a.engines.Controller,
		Binary:                 true, // the namespaces say what is checked, and backends publish b64data
		EngineConcurrency:      cfg.Engine.Concurrency,
		InlineHandlers:         true,
		Logger:                 o.Logger,
		Name:                   nodeName(cfg),
		Version:                o.Version,
		PingInterval:           c.PingInterval,
		PongTimeout:            c.PongTimeout,
		StaleCloseDelay:        c.StaleCloseDelay,
		ExpiredCloseDelay:      c.ExpiredCloseDelay,
		ExpiredSubCloseDelay:   c.ExpiredSubCloseDelay,
		PresenceUpdateInterval: c.PresenceInterval,
		PositionCheckDelay:     c.PositionCheckDelay,
		PositionMaxTimeLag:     c.PositionMaxLag,
		ChannelLimit:           c.ChannelLimit,
		ChannelMaxLength:       cfg.Channel.MaxLength,
		QueueMaxSize:           c.QueueMaxSize,
		UserConnectionLimit:    c.UserConnectionLimit,
		HistoryLimit:           c.HistoryMaxLimit,
		RecoveryLimit:          c.RecoveryMaxLimit,
		Concurrency:            max(c.Concurrency, 1),
		PollConcurrency:        cfg.SharedPoll.ConcurrencyLimit,
		SendTime:               c.IncludeServerTime,
		FlightRecorder:         cfg.Flight.Bytes(),
		Expressions:            expression.Compile,
		GoroutineDriver:        cfg.WebSocket.GoroutineDriver,
		ConnectDisconnects:     connectDisconnects(c),
	}
}

// keys are the configuration keys that set what the node names in refusals.
var keys = map[string]string{
	"Config.ChannelLimit":        "client.channel_limit",
	"Config.ChannelMaxLength":    "channel.max_length",
	"Config.QueueMaxSize":        "client.queue_max_size",
	"Config.StaleCloseDelay":     "client.stale_close_delay",
	"Config.UserConnectionLimit": "client.user_connection_limit",

	"webtransport.Config.MessageSizeLimit":              "webtransport.message_size_limit",
	"websocket.Config.MessageSizeLimit":                 "websocket.message_size_limit",
	"websocket.Config.DecompressedMessageSizeLimit":     "websocket.decompressed_message_size_limit",
	"uni_websocket.Config.MessageSizeLimit":             "uni_websocket.message_size_limit",
	"uni_websocket.Config.DecompressedMessageSizeLimit": "uni_websocket.decompressed_message_size_limit",

	"SubscribeOptions.AllowTagsFilter": "allow_tags_filter",
	"ChannelOptions.Binary":            "publication_data_format",
	"SharedPoll.MaxKeys":               "shared_poll.max_keys_per_connection",
	"MapOptions.MaxEntries":            "map.client_max_entries",
	"MapOptions.KeyTTL":                "map.key_ttl",
	"MapOptions.StreamSize":            "map.mode",
}

// ofNamespace tells whether the key for what the node names is an option of the channel's namespace.
func ofNamespace(name string) bool {
	of, _, _ := strings.Cut(name, ".")
	return of == "SubscribeOptions" || of == "ChannelOptions" || of == "SharedPoll" || of == "MapOptions"
}

// nameKey replaces what the node names in a refusal by a key of the configuration, or by
// nothing if there is none.
func (a *App) nameKey(f *refusal.Refusal) {
	switch of, field, _ := strings.Cut(f.Key, "."); of {
	case "Config", "Handlers", "SubscribeOptions", "ChannelOptions", "SharedPoll", "MapOptions", "webtransport", "websocket", "uni_websocket":
	case "httpstream":
		if strings.HasSuffix(field, ".MaxRequestBodySize") {
			f.Key = a.bodyLimits[f.Path]
		}
		return
	default:
		return
	}
	option := ofNamespace(f.Key)
	if f.Key = keys[f.Key]; f.Key != "" && option {
		f.Key = a.inForce.Load().Channels.OptionKey(f.Channel, f.Key)
	}
}

// nodeName is node.name, else <hostname>_<port>.
func nodeName(cfg *config.Config) string {
	if cfg.Node.Name != "" {
		return cfg.Node.Name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return host + "_" + strconv.Itoa(cfg.HTTPServer.Port)
}

// Start connects to the engines, runs the node and opens the listeners. When ctx ends, it
// stops trying to reach Redis and NATS before start_timeout is over. After an error, nothing
// is left running.
func (a *App) Start(ctx context.Context) error {
	if err := startAll(ctx, a.parts()); err != nil {
		return err
	}
	a.background()
	return nil
}

// open opens all listeners, or none of them.
func (a *App) open(context.Context) (err error) {
	var opened []func() error // which close what was opened
	defer func() {
		if err == nil {
			return
		}
		for _, closes := range opened {
			err = errors.Join(err, closes())
		}
	}()
	for _, g := range a.grpc {
		if err := g.open(&a.reserve); err != nil {
			return err
		}
		opened = append(opened, g.ln.Close)
	}
	for _, l := range a.listeners {
		if err := l.open(&a.reserve); err != nil {
			return err
		}
		opened = append(opened, l.close)
	}
	return nil
}

// serve calls f in the background, and reports its error.
func (a *App) serve(f func() error) {
	a.serving.Go(func() {
		if err := f(); err != nil {
			a.failed <- err
		}
	})
}

// Failed reports each listener and each consumer that stopped before Shutdown was called.
func (a *App) Failed() <-chan error { return a.failed }

// Addr returns the address of a listener, "external", "internal", "uni_grpc" or "grpc_api", after
// Start. For port 0 it has the port that the system chose. It is empty if there is no such listener:
// internal endpoints may be on the external one (docs/configuration.md, http_server).
func (a *App) Addr(name string) string {
	for _, g := range a.grpc {
		if g.name == name && g.ln != nil {
			return g.ln.Addr().String()
		}
	}
	for _, l := range a.listeners {
		if l.name == name && l.ln != nil {
			return l.ln.Addr().String()
		}
	}
	return ""
}

// Node of the server.
func (a *App) Node() *gyro.Node { return a.node }

// Shutdown reports for shutdown.delay that the node is not ready. Then it stops accepting, disconnects all clients with 3001, spread over
// shutdown.drain_time, and waits for requests and commands under way. If ctx ends before, it
// cuts off the rest and returns the error of ctx. It may be called again, and without Start.
func (a *App) Shutdown(ctx context.Context) error {
	err := stopAll(ctx, a.parts())
	_ = logging.Flush(a.log) // a log that cannot be written does not fail the shutdown
	return err
}

// closeListeners closes the listeners in the background, the internal one when drained is closed, so that probes and
// Prometheus see the drain. It returns a function that waits for those of HTTP; waitForGRPC waits for the others.
func (a *App) closeListeners(ctx context.Context, drained <-chan struct{}) func() error {
	for _, g := range a.grpc {
		g.server.Stop()
	}
	errs := make([]error, len(a.listeners))
	var wg sync.WaitGroup
	for i, l := range a.listeners {
		wg.Go(func() {
			if l.name == internalListener {
				<-drained
			}
			errs[i] = l.shutdown(ctx)
		})
	}
	return func() error {
		wg.Wait()
		return errors.Join(errs...)
	}
}

// routes mounts the endpoints.
func (a *App) routes(o Options, exec *api.Executor) (external, internal *site, err error) {
	cfg := a.cfg
	external, internal = newSite(a.newGate), newSite(a.newGate)
	if samePlace(&cfg.HTTPServer) {
		internal = external
	}
	var errs []error
	add := func(s *site, key, path string, e endpoint) {
		errs = append(errs, s.handle(key, path, e))
	}
	connectionLimit := func() int { return a.inForce.Load().cfg.Client.ConnectionLimit }
	a.limits = admission.New(connectionLimit, cfg.Client.ConnectionRateLimit, a.node.NumClients)
	a.meters.watch(a)
	external.guide.Refusals, internal.guide.Refusals = refusal.Reporter{Log: a.log}, refusal.Reporter{Log: a.log}
	if !cfg.WebSocket.Disabled {
		path := cfg.WebSocket.HandlerPrefix
		external.guide.WebSocket = cleanPrefix(path)
		errs = append(errs, mountWebSocket(external, "websocket.handler_prefix", path, a.webSocket()))
	}
	if cfg.UniWebSocket.Enabled {
		errs = append(errs, mountWebSocket(external, "uni_websocket.handler_prefix", cfg.UniWebSocket.HandlerPrefix, a.uniWebSocket()))
	}
	errs = append(errs, a.mountStreams(external))
	if cfg.WebTransport.Enabled {
		add(external, "webtransport.handler_prefix", cfg.WebTransport.HandlerPrefix,
			endpoint{Handler: a.webTransport(), limited: true, foreign: refuseForeign})
	}
	if cfg.SockJS.Enabled {
		errs = append(errs, a.mountSockJS(external))
	}
	if cfg.Init.Enabled {
		add(external, "init.handler_prefix", cfg.Init.HandlerPrefix, endpoint{Handler: cors(a.origins, httpapi.Init()), limited: true})
	}
	if cfg.Health.Enabled {
		errs = append(errs, a.mountHealth(internal))
	}
	if m := a.meters.registry; m != nil && cfg.Prometheus.Enabled {
		add(internal, "prometheus.handler_prefix", cfg.Prometheus.HandlerPrefix, endpoint{Handler: m.Handler()})
	}
	if cfg.Debug.Enabled {
		errs = append(errs, internal.handleTree("debug.handler_prefix", cfg.Debug.HandlerPrefix, endpoint{Handler: profiles.Handler(cleanPrefix(cfg.Debug.HandlerPrefix))}))
	}
	errs = append(errs, mountSwagger(internal, cfg))
	operators := internal
	if cfg.Admin.External {
		operators = external
	}
	errs = append(errs, a.mountAdmin(operators, o, exec))
	if !cfg.HTTPAPI.Disabled {
		where := internal
		if cfg.HTTPAPI.External {
			where = external
		}
		where.guide.API = cleanPrefix(cfg.HTTPAPI.HandlerPrefix)
		errs = append(errs, a.mountAPI(where, exec))
	}
	for path, page := range o.Pages {
		add(external, "the page "+path, path, endpoint{Handler: external.guide.Before(page), checkHost: true})
	}
	return external, internal, errors.Join(errs...)
}

// newExecutor returns what executes the commands of the server API, by whichever way they come.
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

// newConsumers makes the enabled consumers.
func (a *App) newConsumers() (*sources.Consumers, error) {
	node, commands, meter := a.meters.consumers(api.NodeOf(a.node))
	return sources.New(sources.Config{
		List: a.cfg.Consumers, Commands: commands, Meter: meter, Tracer: a.tracer.Consumers(), Logger: a.log,
		Executor: a.executor(a.tracer.Node(node)),
	})
}

// operators returns the endpoints for operators by their names: those of the HTTP API for senders who may do
// everything.
func (a *App) operators() map[string]http.Handler {
	control := logs.Of(a.log)
	return map[string]http.Handler{
		"trace": a.taps, "snapshot": a.snapshots, "log_level": logs.LevelHandler(control, a.log), "refusals": logs.RefusalsHandler(control),
	}
}

func (a *App) mountAPI(s *site, exec *api.Executor) error {
	h, err := httpapi.New(exec, httpapi.Config{
		Prefix: a.cfg.HTTPAPI.HandlerPrefix, Guard: func() *rights.Guard { return a.inForce.Load().httpSenders },
		ErrorMode: a.cfg.HTTPAPI.ErrorMode, ShuttingDown: a.stopping.Load, Observer: a.meters.http, Logger: a.log,
		Operators: a.operators(), Tracer: a.tracer.HTTP(cleanPrefix(a.cfg.HTTPAPI.HandlerPrefix)),
	})
	if err != nil {
		return err
	}
	const key = "http_api.handler_prefix"
	e := endpoint{Handler: h, routes: h.Routes()}
	for _, path := range h.Patterns() {
		mount := s.handle
		if path == "/" { // the legacy endpoint serves all paths that no other endpoint serves
			mount = s.handleTree
		}
		if err := mount(key, path, e); err != nil {
			return err
		}
	}
	return nil
}
