package web

import (
	"net/http"

	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
)

func (w *Web) mountEmulation() error {
	if !w.Settings.SSE.Enabled && !w.Settings.HTTPStream.Enabled {
		return nil
	}
	c := &w.Settings.Emulation
	h := httpstream.NewEmulation(w.Node, httpstream.EmulationConfig{
		MaxRequestBodySize: c.MaxRequestBodySize, AllowOrigin: w.mayRead,
	})
	path := CleanPrefix(c.HandlerPrefix)
	w.bodyLimits[path] = "emulation.max_request_body_size"
	// The limits of connections do not apply: its clients have connected.
	return w.External.Handle("emulation.handler_prefix", c.HandlerPrefix,
		Endpoint{Handler: h, Routes: []front.Route{h.Route(path)}, foreign: refuseCredentials})
}

// mountStream mounts a section; own has its settings that are not in c.
func (w *Web) mountStream(section string, kind httpstream.Kind, c *config.BodyTransport, own httpstream.Config) error {
	path := CleanPrefix(c.HandlerPrefix)
	own.MaxRequestBodySize, own.StaleTimeout, own.AllowOrigin = c.MaxRequestBodySize, w.Settings.Client.StaleCloseDelay, w.mayRead
	h := httpstream.NewHandler(kind, w.Node, own)
	w.bodyLimits[path] = section + ".max_request_body_size"
	return w.External.Handle(section+".handler_prefix", c.HandlerPrefix, Endpoint{Handler: h, Routes: h.Routes(path), limited: true, foreign: refuseCredentials})
}

// connectAnswers returns the answers to failed connects by code; nil if the stream has them. The first one of a code
// counts.
func connectAnswers(c *config.UniHTTP) map[uint32]httpstream.ConnectAnswer {
	if !c.ConnectCodeToHTTPResponse.Enabled {
		return nil
	}
	answers := make(map[uint32]httpstream.ConnectAnswer)
	for _, t := range c.ConnectCodeToHTTPResponse.Transforms {
		if _, ok := answers[uint32(t.Code)]; !ok {
			answers[uint32(t.Code)] = httpstream.ConnectAnswer{Status: t.To.StatusCode, Body: t.To.Body}
		}
	}
	return answers
}

// mayRead reports whether the page that sends a request may read the answer. Requests of other pages without credentials
// are served, and the log says why their browser hides the answer, except for pages of the server's own host.
func (w *Web) mayRead(q *front.Request) bool {
	origin := q.Get("Origin")
	if w.Origins.Match(origin) {
		return true
	}
	if !ofOwnHost(q) {
		refusal.Reporter{Log: w.Log}.Report(refusal.Refusal{
			Kind: "request answered without CORS fields: its origin is not allowed", Addr: q.RemoteAddr, Origin: origin, Path: q.Path,
		}, http.StatusOK, ForeignOrigin(w.Settings.Client.AllowedOrigins))
	}
	return false
}
