package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A request cannot profile the process for as long as it likes.
func TestSeconds(t *testing.T) {
	for _, path := range []string{"/debug/pprof/profile?seconds=301", "/debug/pprof/trace?seconds=1e9", "/debug/pprof/heap?seconds=400"} {
		w := httptest.NewRecorder()
		Profiles("/debug/pprof").ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != 400 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	Profiles("/debug/pprof").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline?seconds=3", nil))
	if w.Code != 200 {
		t.Error(w.Code)
	}
}
