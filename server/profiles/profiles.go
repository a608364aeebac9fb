// Package profiles serves the profiles of the process for go tool pprof: the configuration key debug.enabled.
package profiles

import (
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// Handler serves profiles below a prefix, a path without a slash at the end.
func Handler(prefix string) http.Handler {
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	own := map[string]http.HandlerFunc{
		"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A profile may take longer than the listener's write timeout; if this fails, it is cut short.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		name := strings.TrimPrefix(r.URL.Path, prefix)
		if h, ok := own[name]; ok {
			h(w, r)
			return
		}
		r.URL.Path = "/debug/pprof/" + name // pprof.Index serves no other paths
		pprof.Index(w, r)
	})
}
