// Package web serves the endpoints of a server on its listeners: transports, the server API, health, metrics, pages for
// operators. It has the rules for origins, hosts and limits, and does not know the work of an endpoint.
package web

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/transport/websocket"
)

// Config of a Web.
type Config struct {
	// Settings is the configuration at the start.
	Settings *config.Config
	Node     *gyro.Node
	Origins  *config.Origins
	// Dictionaries are for WebSocket clients.
	Dictionaries []*websocket.Dictionary
	// ConnectionLimit returns client.connection_limit in force.
	ConnectionLimit func() int
	// KnowsHost, if set, decides by Host whether endpoints with CheckHost answer.
	KnowsHost func(host string) bool
	// Counter, if set, returns a counter of requests to a path, which is empty for all unknown paths.
	Counter func(path string) func(method string, status int)
	Log     *slog.Logger
}

// Web has the site of each listener. Its owner mounts endpoints, then makes the listeners.
type Web struct {
	Config
	Limits *Limits
	// External is for clients, Internal for backends and operators. They are the same if the listeners have one address.
	External, Internal *Site
	// bodyLimits are the keys of the limits of request bodies, by path.
	bodyLimits map[string]string
}

// New returns a Web without endpoints.
func New(c Config) *Web {
	w := &Web{Config: c, bodyLimits: make(map[string]string)}
	w.Limits = NewLimits(c.ConnectionLimit, c.Settings.Client.ConnectionRateLimit, c.Node.NumClients)
	w.External = w.newSite()
	w.Internal = w.External
	if !samePlace(&c.Settings.HTTPServer) {
		w.Internal = w.newSite()
	}
	return w
}

func (w *Web) newSite() *Site {
	s := newSite(w.newGate)
	s.Guide.Refusals = refusal.Reporter{Log: w.Log}
	return s
}

// SiteFor returns External or Internal.
func (w *Web) SiteFor(external bool) *Site {
	if external {
		return w.External
	}
	return w.Internal
}

// BodyLimit returns the key of the limit of request bodies; empty if there is none.
func (w *Web) BodyLimit(path string) string { return w.bodyLimits[path] }

// WarnExposed warns of endpoints that clients should not reach.
func (w *Web) WarnExposed() {
	h := &w.Settings.HTTPServer
	Exposure{Config: w.Settings, Address: externalAddr(h), Shared: samePlace(h)}.Warn(w.Log)
}

// MountInit mounts the init endpoint, if it is enabled.
func (w *Web) MountInit() error {
	c := &w.Settings.Init
	if !c.Enabled {
		return nil
	}
	return w.External.Handle("init.handler_prefix", c.HandlerPrefix, Endpoint{Handler: cors(w.Origins, Init()), limited: true})
}

// MountProfiles mounts profiles of the process, if they are enabled.
func (w *Web) MountProfiles() error {
	c := &w.Settings.Debug
	if !c.Enabled {
		return nil
	}
	return w.Internal.HandleTree("debug.handler_prefix", c.HandlerPrefix, Endpoint{Handler: Profiles(CleanPrefix(c.HandlerPrefix))})
}

// MountPages mounts pages on the external listener, by path.
func (w *Web) MountPages(pages map[string]http.Handler) error {
	var errs []error
	for path, page := range pages {
		errs = append(errs, w.External.Handle("the page "+path, path, Endpoint{Handler: w.External.Guide.Before(page), CheckHost: true}))
	}
	return errors.Join(errs...)
}

// MountAPI mounts the server API at its paths.
func (w *Web) MountAPI(paths []string, e Endpoint) error {
	c := &w.Settings.HTTPAPI
	s := w.SiteFor(c.External)
	s.Guide.API = CleanPrefix(c.HandlerPrefix)
	for _, path := range paths {
		mount := s.Handle
		if path == "/" { // the legacy endpoint serves all paths that no other endpoint serves
			mount = s.HandleTree
		}
		if err := mount("http_api.handler_prefix", path, e); err != nil {
			return err
		}
	}
	return nil
}

// AdminOff lets the guide tell that the admin interface is off. The prefix has no slash at its end.
func (w *Web) AdminOff(prefix string) {
	for _, path := range []string{prefix, prefix + "/", prefix + "/admin", prefix + "/admin/"} {
		if strings.Trim(path, "/") != "" { // at the root the guide tells of the other endpoints
			w.SiteFor(w.Settings.Admin.External).Guide.Off[path] = "admin.enabled"
		}
	}
}
