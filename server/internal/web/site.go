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
	// served has the shortest path of each configuration key, for the log.
	served map[string]string
	routes []front.Route
	// newGate makes the gate of an endpoint; path is its label in metrics, empty for unknown paths.
	newGate func(path string, e Endpoint) *gate
	// Guide answers requests for unknown paths.
	Guide Guide
}

// Endpoint is the handler of a path, with its rules.
type Endpoint struct {
	http.Handler
	// Routes serve requests without net/http. Routes of other paths are ignored.
	Routes []front.Route
	// limited: the limits of client connections apply.
	limited bool
	foreign foreignRule
	// embedded tells which paths pages of any origin may embed; nil: none.
	embedded func(path string) bool
	// CheckHost: requests for hosts that Config.KnowsHost does not know are refused.
	CheckHost bool
}

func newSite(newGate func(path string, e Endpoint) *gate) *Site {
	s := &Site{exact: make(map[string]http.Handler), trees: make(map[string]http.Handler), served: make(map[string]string), newGate: newGate}
	s.Guide.Off = make(map[string]string)
	s.rest = s.gated("", Endpoint{Handler: &s.Guide})
	return s
}

// gated puts the gate before an endpoint and its routes.
func (s *Site) gated(path string, e Endpoint) http.Handler {
	g := s.newGate(path, e)
	for _, r := range e.Routes {
		if r.Path == path {
			r.Gate = g
			s.routes = append(s.routes, r)
		}
	}
	return front.Wrap(g, e)
}

func (s *Site) empty() bool { return len(s.exact) == 0 }

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s.exact[r.URL.Path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	s.tree(r.URL.Path).ServeHTTP(w, r)
}

func (s *Site) tree(path string) http.Handler {
	longest, found := "", s.rest
	for prefix, h := range s.trees {
		if len(prefix) > len(longest) && strings.HasPrefix(path, prefix) {
			longest, found = prefix, h
		}
	}
	return found
}

// Handle serves one path. key is its configuration key.
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
	s.exact[path] = s.gated(path, e)
	if known := s.served[key]; known == "" || known == "/" || path != "/" && len(path) < len(known) {
		s.served[key] = path
	}
	return nil
}

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
	s.trees[below] = s.gated(below, e)
	return nil
}

func (s *Site) handleBelow(key, path string, e Endpoint) error {
	if err := s.Handle(key, path, e); err != nil {
		return err
	}
	below := strings.TrimSuffix(CleanPrefix(path), "/") + "/"
	s.trees[below] = s.gated(below, e)
	return nil
}

// CleanPrefix removes slashes at the end; an empty result is "/".
func CleanPrefix(path string) string {
	path = strings.TrimRight(path, "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
