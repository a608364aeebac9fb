package apicall

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestErrors: errors say what to do, and never show the key.
func TestErrors(t *testing.T) {
	status, body := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/info" || r.Header.Get("X-API-Key") != "secret" {
			t.Errorf("%s with key %q", r.URL, r.Header.Get("X-API-Key"))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	c := &Caller{URL: server.URL + "/api", Key: "secret", HTTP: server.Client()}
	call := func() error { return c.Call(t.Context(), "info", struct{}{}, new(any)) }
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{401, "", "--api-key"}, {404, "", "--api"}, {413, "", "2 bytes"}, {500, "", "status 500"}, {200, "x", "not JSON"},
		{200, `{"error":{"code":103,"message":"permission denied"}}`, "error 103: permission denied"}, {200, `{}`, "no result"},
	} {
		status, body = tt.status, tt.body
		if err := call(); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %s: %v", tt.status, tt.body, err)
		}
	}
	status, body = 200, `{"result":{"nodes":[]}}`
	if err := call(); err != nil {
		t.Error(err)
	}
	server.Close()
	if err := call(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
