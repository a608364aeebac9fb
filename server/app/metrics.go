package app

import (
	"net/http"
	"strings"

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

// count counts the requests of an endpoint; path is that of the endpoint.
func (m *meters) count(path string, next http.Handler) http.Handler {
	if m.requests == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusInternalServerError // what a panic is
		defer func() { m.requests.Add(path, r.Method, status) }()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(rec, r)
		status = rec.status
	})
}

// counter returns what counts requests that are answered on a way of their own.
func (m *meters) counter(path, method string, status int) func() {
	if m.requests == nil {
		return func() {}
	}
	return m.requests.Of(path, method, status).Inc
}

// answered counts what the listener of the API answers, which does not pass a site; nil
// if nobody does.
func (m *meters) answered(prefix string) func(api.Method) {
	if m.requests == nil {
		return nil
	}
	prefix = strings.TrimSuffix(cleanPrefix(prefix), "/")
	count := make([]func(), len(api.Methods()))
	for _, method := range []api.Method{api.MethodPublish, api.MethodBroadcast} {
		count[method] = m.counter(prefix+"/"+method.String(), http.MethodPost, http.StatusOK)
	}
	return func(method api.Method) { count[method]() }
}
