// Package sockjs is the SockJS transport, protocol version 0.3, for clients that still use it: WebSocket, XHR
// streaming, XHR polling and EventSource. The messages are messages of the client protocol, in JSON.
//
// A session is on the node that got its first request, and further requests must come to the same node. The client
// chooses the ID of the session, which is no secret. So the web server must refuse requests that pages of other origins
// make a browser send before they get here, or an attacker could use a session of another user.
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
	// ScriptURL is where the page for clients in iframes loads the SockJS client from. Without
	// it there is no such page. AllowFrame reports whether pages of an origin may embed it;
	// default: none.
	ScriptURL  string
	AllowFrame func(origin string) bool
	// Admit is called for each new session. It must not block. If it returns an error, the
	// answer is 503 with the text of the error. Default: all are admitted.
	Admit func(r *http.Request) error
	// Identity are the names of the header fields that identify a client, beside Cookie. A request of a session needs
	// the same values as its first request. Otherwise the handler calls Stranger with the request and answers 404.
	Identity []string
	Stranger func(r *http.Request)
	// MaxBodySize is the most bytes of a request with messages. A larger one is refused with
	// 413. Default: 65536.
	MaxBodySize int
	// WriteTimeout is how long a client may block one write before it is gone. Default: 1 s.
	WriteTimeout time.Duration
	// DisconnectDelay is how long a session lives between two requests that receive.
	// Default: 5 s.
	DisconnectDelay time.Duration
	// ResponseLimit is after how many bytes a streaming response ends, so that browsers can
	// free its memory. The client begins the next one. Default: 131072.
	ResponseLimit int
	// WebSocket has the limits of sessions over WebSocket. Origins are not checked.
	WebSocket websocket.Config
}

// Handler serves the endpoint. It is safe for concurrent use.
type Handler struct {
	acceptor  transport.Acceptor
	cfg       Config
	webSocket http.Handler

	mu       sync.Mutex
	sessions map[string]*session // by their IDs; without sessions over WebSocket
}

// name of the transport.
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

// sessionPath is SERVER/SESSION/TRANSPORT. SERVER is for proxies; this node ignores it.
var sessionPath = regexp.MustCompile(`^/([^/.]+)/([^/.]+)/([a-z_]+)$`)

// maxName bounds SERVER and SESSION, in bytes. The patterns do not, because each repetition of a bounded one takes memory.
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

// IsFrame tells whether a path is the path of the page that others may embed. The page looks at their origin itself.
func (h *Handler) IsFrame(path string) bool {
	return h.cfg.ScriptURL != "" && framePath.MatchString(strings.TrimPrefix(path, h.cfg.Prefix))
}

// serveSession serves a request below SERVER/SESSION.
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

// only serves requests of one method, and preflights.
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

// framePage is embedded by clients of browsers that have no cross-origin requests. It talks to any
// page around it, so not every page may embed it.
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

// frame serves framePage to the pages of allowed origins. The browser names the origin in Referer,
// and keeps pages of other origins from embedding the answer.
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

// origin is scheme and host of an address, and the host has no character that could end a field of
// a Content-Security-Policy.
var origin = regexp.MustCompile(`^(https?://[-a-zA-Z0-9.:\[\]]+)(/|$)`)

func originOf(address string) string {
	if m := origin.FindStringSubmatch(address); m != nil {
		return m[1]
	}
	return ""
}

// admit reports whether a new session is let in, and tells the client if it is not.
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
