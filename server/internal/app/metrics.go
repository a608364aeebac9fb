package app

import (
	"cmp"
	"context"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/engine/notify"
	"github.com/gyrohq/gyro/server/internal/observe/metrics"
	"github.com/gyrohq/gyro/server/internal/observe/metrics/push"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/web/certs"
)

// meters hold the metrics of the server; nothing is measured without a registry.
type meters struct {
	registry *metrics.Registry
	version  string
	http     api.Observer      // of commands of the server API by HTTP
	grpc     api.Observer      // and by gRPC
	admin    api.Observer      // and of operators
	requests *metrics.Requests // nil: HTTP requests are not counted
	proxies  func(protocol string, e proxy.Event, name string) proxy.Meter
	polls    func(*observe.Polled)
	polled   func(proxy string, asked, given int)
	notified func(*notify.Received)
	status   func(kind string, users int, err error)
	reloaded func(err error)
	previous func()       // nil: tokens of the previous secret are not counted
	pushers  push.Pushers // none before start
	history  *metrics.History
}

func (a *App) newMeters(version string) (meters, error) {
	cfg := &a.cfg.Prometheus
	if !cfg.Enabled && !push.Wanted(a.cfg) && !a.cfg.Admin.Enabled {
		return meters{reloaded: func(error) {}}, nil
	}
	if err := push.Check(a.cfg); err != nil {
		return meters{}, err
	}
	// Unknown names are no labels: clients can invent any number of them.
	namespace := func(ch string) string {
		if c, known := a.inForce.Load().Channels.Resolve(ch); known {
			return c.Options.Name
		}
		return ""
	}
	resolve := namespace
	if !cfg.ChannelNamespaceResolution {
		resolve = nil
	}
	m := meters{registry: metrics.New(metrics.Config{
		Namespace: cfg.Namespace, NativeHistograms: cfg.NativeHistograms, RecoveredPublications: cfg.RecoveredPublicationsHistogram, Version: version, Logger: a.log,
		ClientNames: cfg.AdditionalClientNames, ChannelNamespace: resolve, AcceptProtocol: cfg.ExposeTransportAcceptProtocol,
		ClientLabels: cfg.ClientLabels, ClientLabelSets: cfg.ClientLabelsLimit,
	}), version: version, history: new(metrics.History)}
	m.registry.Log(func() uint64 { return logging.Dropped(a.log) })
	m.reloaded, m.previous = m.registry.Reloads(), m.registry.PreviousKey()
	m.http, m.grpc, m.proxies = m.registry.API("http"), m.registry.API("grpc"), m.registry.Proxies()
	if a.cfg.Admin.Enabled {
		m.admin = m.registry.API(metrics.OperatorProtocol)
	}
	m.polls, m.polled = m.registry.Polls(namespace)
	if a.cfg.SharedPoll.Notification.Enabled {
		m.notified = m.registry.Notifications()
	}
	if a.cfg.UserStatus.Enabled {
		m.status = m.registry.UserStatus()
	}
	if cfg.InstrumentHTTPHandlers {
		m.requests = m.registry.Requests()
	}
	return m, nil
}

func (m *meters) start(ctx context.Context, a *App) (err error) {
	if m.registry != nil {
		who := push.Node{UID: a.node.UID(), Name: nodeName(a.cfg), Version: m.version}
		m.pushers, err = push.Start(ctx, a.cfg, m.registry.Gatherer(), who, a.log)
	}
	return err
}

func (m *meters) stop(ctx context.Context) error {
	m.pushers.Shutdown(ctx)
	return nil
}

// requestCounter returns a function that makes the counter of a path; nil if requests are not counted.
func (m *meters) requestCounter() func(path string) func(method string, status int) {
	if m.requests == nil {
		return nil
	}
	return func(path string) func(string, int) { return m.requests.Counter(cmp.Or(path, metrics.Other)) }
}

// charts returns the history of the charts; nil without metrics.
func (m *meters) charts() any {
	if m.registry == nil {
		return nil
	}
	return m.history
}

func (m *meters) remember(ctx context.Context, node *gyro.Node) {
	if m.registry == nil {
		return
	}
	ticker := time.NewTicker(metrics.HistoryStep)
	defer ticker.Stop()
	for {
		if figures, ok := m.registry.Charted().(*metrics.Figures); ok {
			m.history.Look(figures, loadOf(ctx, node))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func loadOf(ctx context.Context, node *gyro.Node) (load metrics.Load) {
	infos, _ := node.Cluster().Nodes(ctx) // the nodes that are known
	for _, n := range infos {
		if n.UID == node.UID() {
			load = metrics.Load{Clients: n.NumClients, CPU: n.Process.CPU, RSS: n.Process.RSS}
		}
	}
	return load
}

func (m *meters) observer() observe.Observer {
	if m.registry == nil {
		return observe.Observer{}
	}
	o := m.registry.Observer()
	o.Polled = m.polls
	return o
}

func (m *meters) watch(a *App) {
	if m.registry != nil {
		m.registry.Watch(ready{a.node, a})
		m.registry.WatchPolls(a.node.Polls())
		m.registry.ConnectionLimit(a.web.Limits.Refusals)
		m.registry.Brokers(a.engines.Brokers)
		m.registry.Certificates(func() []certs.Status { return a.certs.Status() }) // they are made later
	}
}

func (m *meters) apiNode(n api.Node) api.Node {
	if m.registry == nil {
		return n
	}
	return m.registry.Surveys(n)
}

func (m *meters) consumers(n api.Node) (api.Node, api.Observer, func(name string) queues.Meter) {
	if m.registry == nil {
		return n, nil, func(string) queues.Meter { return queues.NoMeter{} }
	}
	return n, m.registry.API("consuming"), m.registry.Consumers()
}
