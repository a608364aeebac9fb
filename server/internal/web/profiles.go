package web

import (
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"
)

const maxSeconds = 300

// Profiles serves profiles for go tool pprof below a prefix.
func Profiles(prefix string) http.Handler {
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	own := map[string]http.HandlerFunc{
		"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A profile may take longer than the write timeout.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		if n, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && n > maxSeconds {
			http.Error(w, "seconds is more than "+strconv.Itoa(maxSeconds), http.StatusBadRequest)
			return
		}
		name := strings.TrimPrefix(r.URL.Path, prefix)
		if h, ok := own[name]; ok {
			h(w, r)
			return
		}
		r.URL.Path = "/debug/pprof/" + name // pprof.Index serves no other paths
		pprof.Index(w, r)
	})
}
