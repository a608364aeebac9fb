package app

import (
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/metrics"
)

// meters are what the server measures itself by. Without a registry it does not.
type meters struct {
	registry *metrics.Registry
	requests *metrics.Requests // nil: they are not counted
}

func (a *App) newMeters() meters {
	cfg := &a.cfg.Prometheus
	if !cfg.Enabled {
		return meters{}
	}
	m := meters{registry: metrics.New(metrics.Config{
		Namespace: cfg.Namespace, NativeHistograms: cfg.NativeHistograms, Logger: a.log,
	})}
	if cfg.InstrumentHTTPHandlers {
		m.requests = m.registry.Requests()
	}
	return m
}

// clients is who hears of what clients do.
func (m *meters) clients() observe.Observer {
	if m.registry == nil {
		return observe.Observer{}
	}
	return m.registry.Clients()
}

// watch begins to export what the node, the brokers and the admission count anyway.
func (m *meters) watch(a *App, version string) {
	if m.registry != nil {
		m.registry.Node(a.node, version, a.limits.refusals)
		m.registry.Brokers(a.engines.Brokers)
	}
}

// apiNode is what the server API executes commands on, observer who hears of them.
func (m *meters) apiNode(n api.Node) (node api.Node, observer api.Observer) {
	if m.registry == nil {
		return n, nil
	}
	return m.registry.Surveys(n), m.registry.API("http")
}
