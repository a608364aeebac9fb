package app

import (
	"fmt"
	"net/http"
	"strings"
)

// site is what one listener serves. Paths match exactly, except below trees
// (config.md 5); unlike http.ServeMux it neither redirects nor gives characters
// of a path a meaning of their own.
type site struct {
	exact map[string]http.Handler
	trees map[string]http.Handler // by prefix with a slash at the end
}

func newSite() *site {
	return &site{exact: make(map[string]http.Handler), trees: make(map[string]http.Handler)}
}

func (s *site) empty() bool { return len(s.exact) == 0 }

// ServeHTTP serves a request by its path.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s.exact[r.URL.Path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	for prefix, h := range s.trees {
		if strings.HasPrefix(r.URL.Path, prefix) {
			h.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// handle serves one path. key names the option that the path is from.
func (s *site) handle(key, path string, h http.Handler) error {
	if strings.ContainsAny(path, "?# \t\r\n") {
		return fmt.Errorf("%s: %q is not a path", key, path)
	}
	path = cleanPrefix(path)
	if s.exact[path] != nil {
		return fmt.Errorf("%s: path %q is taken by another endpoint", key, path)
	}
	s.exact[path] = h
	return nil
}

// handleTree serves everything below a path; the path itself leads there.
func (s *site) handleTree(key, path string, h http.Handler) error {
	below := strings.TrimSuffix(cleanPrefix(path), "/") + "/"
	toBelow := http.RedirectHandler(below, http.StatusMovedPermanently)
	if below == "/" {
		toBelow = h
	}
	if err := s.handle(key, path, toBelow); err != nil {
		return err
	}
	s.trees[below] = h
	return nil
}

// cleanPrefix cuts trailing slashes; an empty result means "/".
func cleanPrefix(path string) string {
	path = strings.TrimRight(path, "/")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
