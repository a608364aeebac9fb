// Package sockjs is the SockJS transport, protocol version 0.3: WebSocket, XHR streaming, XHR polling and EventSource,
// with messages in JSON. All requests of a session must come to the node that got its first one. The client chooses the
// ID of the session, which is no secret. So the web server must refuse requests of other origins before they get here,
// or an attacker could use a session of another user.
package sockjs

import (
	"fmt"
	"html/template"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/websocket"
)

// Config of a Handler. The zero value is ready to use.
type Config struct {
	// Prefix is the path of the endpoint, without a slash at the end. Default: "".
	Prefix string
	// ScriptURL is the SockJS client for the page in iframes. Without it there is no such page. AllowFrame reports
	// whether pages of an origin may embed it; default: none.
	ScriptURL  string
	AllowFrame func(origin string) bool
	// Admit is called for each new session, and must not block. The text of its error is the answer, with status 503.
	// Default: all are admitted.
	Admit func(r *http.Request) error
	// Identity are header fields that identify a client, beside Cookie. If a request has other values than the first one
	// of its session, the handler calls Stranger with it and answers 404.
	Identity []string
	Stranger func(r *http.Request)
	// MaxBodySize is the most bytes of a request with messages. Above it, the answer is 413. Default: 65536.
	MaxBodySize int
	// WriteTimeout bounds one write. Default: 1 s.
	WriteTimeout time.Duration
	// DisconnectDelay is how long a session lives between two requests that receive. Default: 5 s.
	DisconnectDelay time.Duration
	// ResponseLimit is after how many bytes a streaming response ends, so that browsers can free its memory. Default:
	// 131072.
	ResponseLimit int
	// Origins of WebSocket are not checked.
	WebSocket websocket.Config
}

// Handler serves the endpoint. Any goroutine may call it.
type Handler struct {
	acceptor  transport.Acceptor
	cfg       Config
	webSocket http.Handler

	mu       sync.Mutex
	sessions map[string]*session // by their IDs; without sessions over WebSocket
}

const name = "sockjs"

// NewHandler returns a handler whose connections go to acceptor.
func NewHandler(acceptor transport.Acceptor, cfg Config) *Handler {
	setDefault(&cfg.MaxBodySize, 64<<10)
	setDefault(&cfg.WriteTimeout, time.Second)
	setDefault(&cfg.DisconnectDelay, 5*time.Second)
	setDefault(&cfg.ResponseLimit, 128<<10)
	h := &Handler{acceptor: acceptor, cfg: cfg, sessions: make(map[string]*session)}
	cfg.WebSocket.CheckOrigin = func(*front.Request) bool { return true } // it was checked for all requests
	h.webSocket = websocket.NewHandler(&webSocketAcceptor{acceptor: acceptor}, cfg.WebSocket)
	return h
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// sessionPath is SERVER/SESSION/TRANSPORT. This node ignores SERVER, which is for proxies.
var sessionPath = regexp.MustCompile(`^/([^/.]+)/([^/.]+)/([a-z_]+)$`)

// maxName bounds SERVER and SESSION, in bytes: in the patterns, each repetition of a bounded one would take memory.
const maxName = 128

var framePath = regexp.MustCompile(`^/iframe[0-9-.a-z_]*\.html$`)

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, h.cfg.Prefix)
	switch {
	case path == "" || path == "/":
		only(h.welcome, http.MethodGet)(w, r)
	case path == "/info":
		only(h.info, http.MethodGet)(w, r)
	case h.IsFrame(r.URL.Path):
		only(h.frame, http.MethodGet)(w, r)
	default:
		h.serveSession(w, r, sessionPath.FindStringSubmatch(path))
	}
}

// IsFrame tells whether a path is the page for iframes, which looks at the origin itself.
func (h *Handler) IsFrame(path string) bool {
	return h.cfg.ScriptURL != "" && framePath.MatchString(strings.TrimPrefix(path, h.cfg.Prefix))
}

func (h *Handler) serveSession(w http.ResponseWriter, r *http.Request, match []string) {
	if match == nil || len(match[1]) > maxName || len(match[2]) > maxName {
		http.NotFound(w, r)
		return
	}
	id := match[2]
	receive := func(e *envelope) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { h.receive(w, r, id, e) }
	}
	switch match[3] {
	case "websocket":
		only(h.upgrade, http.MethodGet)(w, r)
	case "xhr":
		only(receive(&polling), http.MethodPost)(w, r)
	case "xhr_streaming":
		only(receive(&streaming), http.MethodPost)(w, r)
	case "eventsource":
		only(receive(&eventSource), http.MethodGet)(w, r)
	case "xhr_send":
		only(func(w http.ResponseWriter, r *http.Request) { h.send(w, r, id) }, http.MethodPost)(w, r)
	default:
		http.NotFound(w, r)
	}
}

func only(serve http.HandlerFunc, method string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		switch r.Method {
		case method:
			header.Set("Cache-Control", "no-store, no-cache, no-transform, must-revalidate, max-age=0")
			header.Set("X-Accel-Buffering", "no")
			serve(w, r)
		case http.MethodOptions:
			header.Set("Access-Control-Allow-Methods", "OPTIONS, "+method)
			header.Set("Access-Control-Max-Age", "300")
			w.WriteHeader(http.StatusNoContent)
		default:
			header.Set("Allow", "OPTIONS, "+method)
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		}
	}
}

func (h *Handler) welcome(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	fmt.Fprintln(w, "Welcome to SockJS!")
}

func (h *Handler) info(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	fmt.Fprintf(w, `{"websocket":true,"origins":["*:*"],"cookie_needed":false,"entropy":%d}`+"\n", rand.Uint32())
}

// framePage talks to any page around it, so not every page may embed it.
var framePage = template.Must(template.New("frame").Parse(`<!DOCTYPE html>
<html>
<head>
  <meta charset="utf-8">
  <script>
    document.domain = document.domain;
    _sockjs_onload = function() { SockJS.bootstrap_iframe(); };
  </script>
  <script src="{{.}}"></script>
</head>
<body></body>
</html>
`))

// frame finds the origin in Referer. The browser keeps pages of other origins from embedding the answer.
func (h *Handler) frame(w http.ResponseWriter, r *http.Request) {
	origin := originOf(r.Referer())
	if origin == "" || h.cfg.AllowFrame == nil || !h.cfg.AllowFrame(origin) {
		http.Error(w, "pages of that origin must not embed this one", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.Header().Set("Content-Security-Policy", "frame-ancestors "+origin)
	w.Header().Add("Vary", "Referer")
	_ = framePage.Execute(w, h.cfg.ScriptURL) // fails only if the client has gone
}

// origin has no character that could end a field of a Content-Security-Policy.
var origin = regexp.MustCompile(`^(https?://[-a-zA-Z0-9.:\[\]]+)(/|$)`)

func originOf(address string) string {
	if m := origin.FindStringSubmatch(address); m != nil {
		return m[1]
	}
	return ""
}

// admit answers the client if its session is not let in.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) bool {
	if h.cfg.Admit == nil {
		return true
	}
	err := h.cfg.Admit(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
	return err == nil
}
