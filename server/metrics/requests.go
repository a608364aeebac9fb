package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// Other is the path of requests that no endpoint serves, and the method of those with
// an unusual one.
const Other = "other"

// Requests counts the requests of HTTP.
type Requests struct{ total *prometheus.CounterVec }

// Requests exports them.
func (r *Registry) Requests() *Requests {
	return &Requests{r.counters("node", "incoming_http_requests_total",
		"Requests that were answered, by the path of the endpoint, or other.", "path", "method", "status")}
}

// Add counts a request. path is that of its endpoint or Other, never what the client
// asked for.
func (q *Requests) Add(path, method string, status int) { q.Of(path, method, status).Inc() }

// Of returns the counter of some requests, for who counts many of a kind.
func (q *Requests) Of(path, method string, status int) prometheus.Counter {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
	default: // any token is a method
		method = Other
	}
	return q.total.WithLabelValues(path, method, strconv.Itoa(status))
}
