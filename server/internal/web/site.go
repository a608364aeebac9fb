package web

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gyrohq/gyro/transport/front"
)

// Site has the endpoints of one listener. Paths match exactly, except below trees. Unlike http.ServeMux it does not
// redirect, and no character is special.
type Site struct {
	exact map[string]http.Handler
	trees map[string]http.Handler // by prefix with a slash at the end
	rest  http.Handler
	// served has the shortest path of each key that paths come from, for the log.
	served map[string]string
	// routes serve requests to some endpoints without net/http.
	routes []front.Route
	// gate makes the gate of an endpoint; path is its label in the metrics, empty for paths that are not served.
	gate func(path string, e Endpoint) *gate
	// Guide answers requests for paths that are not served.
	Guide Guide
}

// Endpoint is the handler of a path of a Site, with its rules.
type Endpoint struct {
	http.Handler
	// Routes serve its requests without net/http. Routes for other paths are ignored.
	Routes []front.Route
	// limited: the limits of client connections apply to its requests.
	limited bool
	// foreign is the rule for requests of pages whose origin is not in client.allowed_origins.
	foreign foreignRule
	// embedded tells of paths that pages of any origin may embed; nil: there are none.
	embedded func(path string) bool
	// CheckHost: requests for other hosts than Config.KnowsHost knows are refused.
	CheckHost bool
}

func newSite(gate func(path string, e Endpoint) *gate) *Site {
	s := &Site{exact: make(map[string]http.Handler), trees: make(map[string]http.Handler), served: make(map[string]string), gate: gate}
	s.Guide.Off = make(map[string]string)
	s.rest = s.guard("", Endpoint{Handler: &s.Guide})
	return s
}

// guard puts the gate in front of an endpoint, and of its routes.
func (s *Site) guard(path string, e Endpoint) http.Handler {
	g := s.gate(path, e)
	for _, r := range e.Routes {
		if r.Path == path {
			r.Gate = g
			s.routes = append(s.routes, r)
		}
	}
	return front.Wrap(g, e)
}

func (s *Site) empty() bool { return len(s.exact) == 0 }

// ServeHTTP serves a request by its path.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s.exact[r.URL.Path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	s.tree(r.URL.Path).ServeHTTP(w, r)
}

// tree finds the handler of a path that is not in exact: the handler of the longest prefix.
func (s *Site) tree(path string) http.Handler {
	longest, found := "", s.rest
	for prefix, h := range s.trees {
		if len(prefix) > len(longest) && strings.HasPrefix(path, prefix) {
			longest, found = prefix, h
		}
	}
	return found
}

// Handle serves one path. key is the configuration key that the path comes from.
func (s *Site) Handle(key, path string, e Endpoint) error {
	if strings.ContainsAny(path, "?# \t\r\n") {
		return fmt.Errorf("%s: %q is not a path", key, path)
	}
	return s.HandleExact(key, CleanPrefix(path), e)
}

// HandleExact serves one path as it is, also with a slash at the end.
func (s *Site) HandleExact(key, path string, e Endpoint) error {
	if s.exact[path] != nil {
		return fmt.Errorf("%s: path %q is taken by another endpoint", key, path)
	}
	s.exact[path] = s.guard(path, e)
	if known := s.served[key]; known == "" || known == "/" || path != "/" && len(path) < len(known) {
		s.served[key] = path
	}
	return nil
}

// endpoints lists one path of each endpoint.
func (s *Site) endpoints() []string { return slices.Sorted(maps.Values(s.served)) }

// HandleTree serves everything below a path; the path itself redirects to it.
func (s *Site) HandleTree(key, path string, e Endpoint) error {
	below := strings.TrimSuffix(CleanPrefix(path), "/") + "/"
	toBelow := Endpoint{Handler: http.RedirectHandler(below, http.StatusMovedPermanently)}
	if below == "/" {
		toBelow = e
	}
	if err := s.Handle(key, path, toBelow); err != nil {
		return err
	}
	s.trees[below] = s.guard(below, e)
	return nil
}

// handleBelow serves a path and everything below it.
func (s *Site) handleBelow(key, path string, e Endpoint) error {
	if err := s.Handle(key, path, e); err != nil {
		return err
	}
	below := strings.TrimSuffix(CleanPrefix(path), "/") + "/"
	s.trees[below] = s.guard(below, e)
	return nil
}

// CleanPrefix cuts trailing slashes; an empty result means "/".
func CleanPrefix(path string) string {
	path = strings.TrimRight(path, "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
