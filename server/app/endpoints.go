package app

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/gyrohq/gyro/server/origin"
	"github.com/gyrohq/gyro/transport/websocket"
)

// webSocket is the endpoint of WebSocket clients.
func (a *App) webSocket() http.Handler {
	c := &a.cfg.WebSocket
	return websocket.NewHandler(a.node, websocket.Config{
		MessageSizeLimit:             c.MessageSizeLimit,
		DecompressedMessageSizeLimit: c.DecompressedLimit,
		WriteTimeout:                 c.WriteTimeout,
		Compression:                  c.Compression,
		CompressionMinSize:           c.CompressionMinSize,
		CompressionLevel:             c.CompressionLevel,
		CheckOrigin:                  a.policy.origins.Allowed,
		PingInterval:                 a.cfg.Client.PingInterval,
		PongTimeout:                  a.cfg.Client.PongTimeout,
	})
}

// origins decides on the origins of browsers' requests.
type origins struct{ *origin.Matcher }

// cors adds the headers that let an allowed origin read the answer
// (config.md section 6).
func (o origins) cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get("Origin"); from != "" && o.Allowed(r) {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", from)
			h.Set("Access-Control-Allow-Credentials", "true")
			h.Add("Vary", "Origin")
			if want := r.Header.Get("Access-Control-Request-Headers"); want != "" && want != "null" {
				h.Set("Access-Control-Allow-Headers", want)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// mountDebug serves profiles below prefix.
func mountDebug(s *site, prefix string) {
	s.paths[prefix] = true
	if prefix == "/" {
		prefix = ""
	}
	// pprof.Index finds profiles below its customary path only.
	s.mux.Handle(prefix+"/", http.StripPrefix(prefix, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/debug/pprof" + r.URL.Path
		pprof.Index(w, r)
	})))
	s.mux.HandleFunc(prefix+"/cmdline", pprof.Cmdline)
	s.mux.HandleFunc(prefix+"/profile", liftDeadline(pprof.Profile))
	s.mux.HandleFunc(prefix+"/symbol", pprof.Symbol)
	s.mux.HandleFunc(prefix+"/trace", liftDeadline(pprof.Trace))
}

// liftDeadline lets a handler take longer than the listener's write timeout.
func liftDeadline(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // without it the profile is cut short
		h(w, r)
	}
}

// accessLog writes a line per finished request at debug level. At any other level
// it costs nothing.
func accessLog(next http.Handler, log *slog.Logger) http.Handler {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(rec, r)
		log.Debug("request", "method", r.Method, "status", rec.status, "path", r.URL.Path,
			"addr", clientAddr(r), "duration", time.Since(start).String())
	})
}

// clientAddr is what the access log shows; nothing is decided by it.
func clientAddr(r *http.Request) string {
	for _, name := range []string{"X-Real-Ip", "X-Forwarded-For"} {
		if v := r.Header.Get(name); v != "" {
			return v
		}
	}
	return r.RemoteAddr
}

// recorder notes the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find Hijack and Flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
