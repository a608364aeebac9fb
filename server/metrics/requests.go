package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Other is the path of requests that no endpoint serves, the method of those with
// an unusual one, and the code of what applications refuse for reasons of their own.
const Other = "other"

// Requests counts the requests of HTTP.
type Requests struct{ total *prometheus.CounterVec }

// Requests exports them.
func (r *Registry) Requests() *Requests {
	return &Requests{r.counters("node", "incoming_http_requests_total",
		"Requests that were answered, by the path of the endpoint, or other.", "path", "method", "status")}
}

// Counter returns what counts the requests of an endpoint. path is that of the endpoint or
// Other, never what the client asked for. Most requests have the same method and status: only
// others are looked up.
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
