package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/origin"
	"github.com/gyrohq/gyro/transport/websocket"
)

// webSocket is the endpoint of WebSocket clients.
func (a *App) webSocket() *websocket.Handler {
	c := &a.cfg.WebSocket
	var direct func(origin string) bool
	if !a.log.Enabled(context.Background(), slog.LevelDebug) { // there is no access log to write
		taken := a.meters.counter(cleanPrefix(c.HandlerPrefix), http.MethodGet, http.StatusSwitchingProtocols)
		direct = func(origin string) bool {
			ok := a.origins.Match(origin) && a.limits.hasRoom()
			if ok {
				taken()
			}
			return ok
		}
	}
	return websocket.NewHandler(a.node, websocket.Config{
		MessageSizeLimit:             c.MessageSizeLimit,
		DecompressedMessageSizeLimit: c.DecompressedLimit,
		WriteTimeout:                 c.WriteTimeout,
		Compression:                  c.Compression,
		CompressionMinSize:           c.CompressionMinSize,
		CompressionLevel:             c.CompressionLevel,
		CheckOrigin:                  a.checkOrigin,
		Direct:                       direct,
		PingInterval:                 a.cfg.Client.PingInterval,
		PongTimeout:                  a.cfg.Client.PongTimeout,
	})
}

// checkOrigin tells whether a request may open a connection.
func (a *App) checkOrigin(r *http.Request) bool {
	if a.origins.Allowed(r) {
		return true
	}
	from := r.Header.Get("Origin")
	a.log.Info("connection refused: client.allowed_origins has no such origin",
		"origin", strings.ToValidUTF8(from[:min(len(from), 128)], ""), "addr", r.RemoteAddr)
	return false
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

// profiles serves profiles below prefix.
func profiles(prefix string) http.Handler {
	prefix = strings.TrimSuffix(cleanPrefix(prefix), "/")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, prefix), "/")
		switch name {
		case "cmdline":
			pprof.Cmdline(w, r)
		case "profile":
			liftDeadline(pprof.Profile)(w, r)
		case "symbol":
			pprof.Symbol(w, r)
		case "trace":
			liftDeadline(pprof.Trace)(w, r)
		case "":
			r.URL.Path = "/debug/pprof/" // where pprof.Index believes to be
			pprof.Index(w, r)
		default:
			liftDeadline(pprof.Handler(name).ServeHTTP)(w, r)
		}
	})
}

// liftDeadline lets a handler take longer than the listener's write timeout.
func liftDeadline(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // without it the profile is cut short
		h(w, r)
	}
}

// guard logs the panic of a handler and cuts that one connection. (net/http does
// the same, but among the noise of scanners that is logged at debug level.)
func guard(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				log.Error("request handler panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// accessLog writes a line per finished request at debug level. At any other level
// it costs nothing. The query is left out: it may hold an API key.
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

// Hijack notes that the protocol changes.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find Flush and deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
