package app

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/transports/sockjs"
	"github.com/gyrohq/gyro/server/internal/web/origin"
	"github.com/gyrohq/gyro/server/internal/web/swagger"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/websocket"
)

// webSocket is the endpoint of WebSocket clients.
func (a *App) webSocket() *websocket.Handler {
	cfg := a.webSocketConfig(&a.cfg.WebSocket.WebSocketHandler)
	cfg.Dictionaries = a.dictionaries
	return websocket.NewHandler(a.node, cfg)
}

// uniWebSocket is the endpoint of one-way WebSocket clients.
func (a *App) uniWebSocket() *websocket.Handler {
	c := &a.cfg.UniWebSocket
	cfg := a.webSocketConfig(&c.WebSocketHandler)
	cfg.OneWay = &websocket.OneWay{
		NoDisconnectPush: c.DisableDisconnectPush, NoClosingHandshake: c.DisableClosingHandshake, JoinPushes: c.JoinPushMessages,
	}
	return websocket.NewHandler(a.node, cfg)
}

// mountSockJS serves SockJS clients. The limits hold for new sessions; the gate would apply them to
// each request. Requests of foreign origins are all refused, because pages choose the IDs of
// sessions and need not read the answers to send commands.
func (a *App) mountSockJS(s *site) error {
	c := &a.cfg.SockJS
	cfg := a.webSocketConfig(&a.cfg.WebSocket.WebSocketHandler)
	cfg.MessageSizeLimit = c.MaxRequestBodySize
	h := sockjs.NewHandler(a.node, sockjs.Config{
		Prefix: strings.TrimSuffix(cleanPrefix(c.HandlerPrefix), "/"), ScriptURL: c.URL, AllowFrame: a.origins.Match,
		Admit:    func(r *http.Request) error { return a.admit(r.RemoteAddr) },
		Identity: a.identityFields(), Stranger: a.sockJSStranger,
		MaxBodySize: c.MaxRequestBodySize, WriteTimeout: a.cfg.WebSocket.WriteTimeout, DisconnectDelay: c.DisconnectDelay,
		WebSocket: cfg,
	})
	return s.handleBelow("sockjs.handler_prefix", c.HandlerPrefix, endpoint{Handler: cors(a.origins, h), foreign: refuseForeign, embedded: h.IsFrame})
}

// identityFields are the fields of a request that say who sends it, beside Cookie.
func (a *App) identityFields() []string {
	fields := []string{"Authorization"}
	if name := a.cfg.Client.UserIDHTTPHeader; name != "" {
		fields = append(fields, name)
	}
	return fields
}

// sockJSStranger reports a request that has the ID of a session and not what its client sends.
func (a *App) sockJSStranger(r *http.Request) {
	refusal.Reporter{Log: a.log}.Report(refusal.Refusal{Kind: "request refused: the SockJS session is another client's", Addr: r.RemoteAddr},
		http.StatusNotFound, refusal.Because(errStranger, "", "none of its cookies, or another user, is in the requests of the session"))
}

var errStranger = errors.New("no such session")

// mountWebSocket serves WebSocket clients at path, which is the value of key.
func mountWebSocket(s *site, key, path string, h *websocket.Handler) error {
	return s.handle(key, path, endpoint{
		Handler: h, routes: []front.Route{h.Route(cleanPrefix(path))}, limited: true, foreign: refuseForeign,
	})
}

func (a *App) webSocketConfig(c *config.WebSocketHandler) websocket.Config {
	return websocket.Config{
		MessageSizeLimit:             c.MessageSizeLimit,
		DecompressedMessageSizeLimit: c.DecompressedLimit,
		WriteTimeout:                 c.WriteTimeout,
		Compression:                  c.Compression,
		CompressionMinSize:           c.CompressionMinSize,
		CompressionLevel:             c.CompressionLevel,
		CheckOrigin:                  func(*front.Request) bool { return true }, // the gate has checked it
		PingInterval:                 a.cfg.Client.PingInterval,
		PongTimeout:                  a.cfg.Client.PongTimeout,
	}
}

// cors adds the headers that let pages of an allowed origin read the answer.
func cors(allowed *origin.Matcher, next http.Handler) http.Handler {
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

// mountSwagger serves the OpenAPI document of the server API and its page, if they are enabled.
func mountSwagger(s *site, cfg *config.Config) error {
	prefix := cfg.Swagger.HandlerPrefix
	below := strings.TrimSuffix(cleanPrefix(prefix), "/") + "/"
	if !cfg.Swagger.Enabled {
		s.guide.Off[cleanPrefix(prefix)], s.guide.Off[below] = "swagger.enabled", "swagger.enabled"
		return nil
	}
	return s.handleTree("swagger.handler_prefix", prefix, endpoint{Handler: swagger.New(below, cleanPrefix(cfg.HTTPAPI.HandlerPrefix))})
}
