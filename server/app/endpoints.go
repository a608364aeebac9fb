package app

import (
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/gyrohq/gyro/server/origin"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/websocket"
)

// webSocket is the endpoint of WebSocket clients.
func (a *App) webSocket() *websocket.Handler {
	c := &a.cfg.WebSocket
	return websocket.NewHandler(a.node, websocket.Config{
		MessageSizeLimit:             c.MessageSizeLimit,
		DecompressedMessageSizeLimit: c.DecompressedLimit,
		WriteTimeout:                 c.WriteTimeout,
		Compression:                  c.Compression,
		CompressionMinSize:           c.CompressionMinSize,
		CompressionLevel:             c.CompressionLevel,
		CheckOrigin:                  func(*front.Request) bool { return true }, // the gate has
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
		if from := r.Header.Get("Origin"); from != "" && o.Match(from) {
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
