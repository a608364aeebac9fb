package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/metrics"
)

// Other is the label of paths that no endpoint serves, of unusual methods, and of codes that applications define.
const Other = metrics.Other

// Requests counts HTTP requests.
type Requests struct{ total *prometheus.CounterVec }

// Requests exports the number of HTTP requests.
func (r *Registry) Requests() *Requests {
	return &Requests{r.counters("node", "incoming_http_requests_total",
		"Requests that were answered, by the path of the endpoint, or other.", "path", "method", "status")}
}

// Counter returns the function that counts the requests to an endpoint. path is never one that a client chose. If method
// and status are as in the request before, nothing is looked up.
func (q *Requests) Counter(path string) func(method string, status int) {
	type kind struct {
		prometheus.Counter
		method string
		status int
	}
	var last atomic.Pointer[kind]
	return func(method string, status int) {
		k := last.Load()
		if k == nil || k.method != method || k.status != status {
			k = &kind{q.of(path, method, status), strings.Clone(method), status}
			last.Store(k)
		}
		k.Inc()
	}
}

func (q *Requests) of(path, method string, status int) prometheus.Counter {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
	default: // any token is a method
		method = Other
	}
	return q.total.WithLabelValues(path, method, strconv.Itoa(status))
}
