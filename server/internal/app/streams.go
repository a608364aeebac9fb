package app

import (
	"errors"
	"net/http"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// mountStreams mounts the endpoints of HTTP streams, and the one by which clients of bidirectional
// ones send their commands.
func (a *App) mountStreams(s *site) error {
	cfg := a.cfg
	errs := []error{
		a.mountStream(s, "sse", httpstream.SSE, &cfg.SSE, httpstream.Config{}),
		a.mountStream(s, "http_stream", httpstream.HTTPStream, &cfg.HTTPStream, httpstream.Config{}),
		a.mountStream(s, "uni_sse", httpstream.UniSSE, &cfg.UniSSE.BodyTransport, httpstream.Config{
			ConnectAnswers: connectAnswers(&cfg.UniSSE.UniHTTP), RetryMin: cfg.UniSSE.RetryMin, RetryMax: cfg.UniSSE.RetryMax,
		}),
		a.mountStream(s, "uni_http_stream", httpstream.UniHTTPStream, &cfg.UniHTTPStream.BodyTransport, httpstream.Config{
			ConnectAnswers: connectAnswers(&cfg.UniHTTPStream),
		}),
		a.mountStream(s, "uni_poll", httpstream.UniPoll, &cfg.UniPoll.BodyTransport, httpstream.Config{PollTimeout: cfg.UniPoll.Timeout}),
	}
	if cfg.SSE.Enabled || cfg.HTTPStream.Enabled {
		c := &cfg.Emulation
		h := httpstream.NewEmulation(a.node, httpstream.EmulationConfig{
			MaxRequestBodySize: c.MaxRequestBodySize, AllowOrigin: a.mayRead,
		})
		path := cleanPrefix(c.HandlerPrefix)
		a.bodyLimits[path] = "emulation.max_request_body_size"
		// The limits of connections do not apply: its clients have connected.
		errs = append(errs, s.handle("emulation.handler_prefix", c.HandlerPrefix,
			endpoint{Handler: h, routes: []front.Route{h.Route(path)}, foreign: refuseCredentials}))
	}
	return errors.Join(errs...)
}

// mountStream mounts the endpoint of a section, if it is enabled. own has the settings of the section that are not in c.
func (a *App) mountStream(s *site, section string, kind httpstream.Kind, c *config.BodyTransport, own httpstream.Config) error {
	path := cleanPrefix(c.HandlerPrefix)
	if !c.Enabled {
		s.guide.Off[path] = section + ".enabled"
		return nil
	}
	own.MaxRequestBodySize, own.StaleTimeout, own.AllowOrigin = c.MaxRequestBodySize, a.cfg.Client.StaleCloseDelay, a.mayRead
	h := httpstream.NewHandler(kind, a.node, own)
	a.bodyLimits[path] = section + ".max_request_body_size"
	return s.handle(section+".handler_prefix", c.HandlerPrefix, endpoint{Handler: h, routes: h.Routes(path), limited: true, foreign: refuseCredentials})
}

// connectAnswers returns the answers to failed connects; nil if these are told in the stream. Of
// several for a code, the first counts.
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

// connectDisconnects returns what one-way clients get for errors of their connects, by code.
func connectDisconnects(c *config.Client) map[uint32]protocol.Disconnect {
	if !c.UniDisconnectOnConnect.Enabled {
		return nil
	}
	codes := make(map[uint32]protocol.Disconnect)
	for _, t := range c.UniDisconnectOnConnect.Transforms {
		if _, ok := codes[uint32(t.Code)]; !ok {
			codes[uint32(t.Code)] = protocol.Disconnect{Code: uint32(t.To.Code), Reason: t.To.Reason}
		}
	}
	return codes
}

// mayRead reports whether the page that sends a request may read the answer. Requests of other
// pages without credentials are served, too, but the log says why their browser hides the answer. It does not say so
// of pages of the server's own host, which need no permission.
func (a *App) mayRead(q *front.Request) bool {
	origin := q.Get("Origin")
	if a.origins.Match(origin) {
		return true
	}
	if !ofOwnHost(q) {
		refusal.Reporter{Log: a.log}.Report(refusal.Refusal{
			Kind: "request answered without CORS fields: its origin is not allowed", Addr: q.RemoteAddr, Origin: origin, Path: q.Path,
		}, http.StatusOK, foreign(a.cfg.Client.AllowedOrigins))
	}
	return false
}
