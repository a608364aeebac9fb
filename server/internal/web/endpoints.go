package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/transports/sockjs"
	"github.com/gyrohq/gyro/server/internal/web/swagger"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/websocket"
)

func (w *Web) webSocket() *websocket.Handler {
	cfg := w.webSocketConfig(&w.Settings.WebSocket.WebSocketHandler)
	cfg.Dictionaries = w.Dictionaries
	return websocket.NewHandler(w.Node, cfg)
}

func (w *Web) uniWebSocket() *websocket.Handler {
	c := &w.Settings.UniWebSocket
	cfg := w.webSocketConfig(&c.WebSocketHandler)
	cfg.OneWay = &websocket.OneWay{
		NoDisconnectPush: c.DisableDisconnectPush, NoClosingHandshake: c.DisableClosingHandshake, JoinPushes: c.JoinPushMessages,
	}
	return websocket.NewHandler(w.Node, cfg)
}

// mountSockJS serves SockJS clients. The limits are for new sessions; the gate would apply them to each request. All
// requests of foreign origins are refused: pages choose the IDs of sessions, and need not read answers to send commands.
func (w *Web) mountSockJS() error {
	c := &w.Settings.SockJS
	cfg := w.webSocketConfig(&w.Settings.WebSocket.WebSocketHandler)
	cfg.MessageSizeLimit = c.MaxRequestBodySize
	h := sockjs.NewHandler(w.Node, sockjs.Config{
		Prefix: strings.TrimSuffix(CleanPrefix(c.HandlerPrefix), "/"), ScriptURL: c.URL, AllowFrame: w.Origins.Match,
		Admit:    func(r *http.Request) error { return w.Admit(r.RemoteAddr) },
		Identity: w.identityFields(), Stranger: w.sockJSStranger,
		MaxBodySize: c.MaxRequestBodySize, WriteTimeout: w.Settings.WebSocket.WriteTimeout, DisconnectDelay: c.DisconnectDelay,
		WebSocket: cfg,
	})
	return w.External.handleBelow("sockjs.handler_prefix", c.HandlerPrefix, Endpoint{Handler: cors(w.Origins, h), foreign: refuseForeign, embedded: h.IsFrame})
}

// identityFields are header fields that identify a client, beside Cookie.
func (w *Web) identityFields() []string {
	fields := []string{"Authorization"}
	if name := w.Settings.Client.UserIDHTTPHeader; name != "" {
		fields = append(fields, name)
	}
	return fields
}

// sockJSStranger reports a request with the ID of a session of another client.
func (w *Web) sockJSStranger(r *http.Request) {
	refusal.Reporter{Log: w.Log}.Report(refusal.Refusal{Kind: "request refused: the SockJS session is another client's", Addr: r.RemoteAddr},
		http.StatusNotFound, refusal.Because(errStranger, "", "none of its cookies, or another user, is in the requests of the session"))
}

var errStranger = errors.New("no such session")

// mountWebSocket serves WebSocket clients at path, the value of key.
func mountWebSocket(s *Site, key, path string, h *websocket.Handler) error {
	return s.Handle(key, path, Endpoint{
		Handler: h, Routes: []front.Route{h.Route(CleanPrefix(path))}, limited: true, foreign: refuseForeign,
	})
}

func (w *Web) webSocketConfig(c *config.WebSocketHandler) websocket.Config {
	return websocket.Config{
		MessageSizeLimit:             c.MessageSizeLimit,
		DecompressedMessageSizeLimit: c.DecompressedLimit,
		WriteTimeout:                 c.WriteTimeout,
		Compression:                  c.Compression,
		CompressionMinSize:           c.CompressionMinSize,
		CompressionLevel:             c.CompressionLevel,
		CheckOrigin:                  func(*front.Request) bool { return true }, // the gate has checked it
		PingInterval:                 w.Settings.Client.PingInterval,
		PongTimeout:                  w.Settings.Client.PongTimeout,
	}
}

func cors(allowed *config.Origins, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get("Origin"); from != "" && allowed.Match(from) {
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

// MountSwagger serves the OpenAPI document and its page, if they are enabled.
func (w *Web) MountSwagger() error {
	s, cfg := w.Internal, w.Settings
	prefix := cfg.Swagger.HandlerPrefix
	below := strings.TrimSuffix(CleanPrefix(prefix), "/") + "/"
	if !cfg.Swagger.Enabled {
		s.Guide.Off[CleanPrefix(prefix)], s.Guide.Off[below] = "swagger.enabled", "swagger.enabled"
		return nil
	}
	return s.HandleTree("swagger.handler_prefix", prefix, Endpoint{Handler: swagger.New(below, CleanPrefix(cfg.HTTPAPI.HandlerPrefix))})
}
