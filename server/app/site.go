package app

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gyrohq/gyro/server/metrics"
)

// site is what one listener serves. Paths match exactly, except below trees
// (config.md 5); unlike http.ServeMux it neither redirects nor gives characters
// of a path a meaning of their own.
type site struct {
	exact map[string]http.Handler
	trees map[string]http.Handler // by prefix with a slash at the end
	// count wraps the handler of a path; that of metrics.Other serves the rest.
	count    func(path string, next http.Handler) http.Handler
	notFound http.Handler
}

func newSite(count func(path string, next http.Handler) http.Handler) *site {
	return &site{
		exact: make(map[string]http.Handler), trees: make(map[string]http.Handler),
		count: count, notFound: count(metrics.Other, http.HandlerFunc(http.NotFound)),
	}
}

func (s *site) empty() bool { return len(s.exact) == 0 }

// ServeHTTP serves a request by its path.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, ok := s.exact[r.URL.Path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	s.tree(r.URL.Path).ServeHTTP(w, r)
}

// tree finds who serves a path that is in no other way taken: of trees inside of
// each other the innermost.
func (s *site) tree(path string) http.Handler {
	longest, found := "", s.notFound
	for prefix, h := range s.trees {
		if len(prefix) > len(longest) && strings.HasPrefix(path, prefix) {
			longest, found = prefix, h
		}
	}
	return found
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
	s.exact[path] = s.count(path, h)
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
	s.trees[below] = s.count(below, h)
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
