package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
)

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("%d %q, want %d %q", w.Code, w.Body, status, body)
	}
	if kind := w.Header().Get("Content-Type"); body != "" && kind != "application/json" {
		t.Errorf("Content-Type %q", kind)
	}
}

func TestSimpleEndpoints(t *testing.T) {
	w := ask(Init(), "GET", "/connection/init")
	if w.Code != 200 || w.Body.String() != "{}" || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("init: %d %q %v", w.Code, w.Body, w.Header())
	}
	for _, m := range []string{"POST", "PUT", "HEAD"} {
		expect(t, ask(Init(), m, "/connection/init"), 405, "")
	}
}

func TestReady(t *testing.T) {
	node := gyro.Health{Part: "node", Delay: 1234567 * time.Nanosecond}
	shard := gyro.Health{Part: "redis shard 0 (10.0.0.5:6379)"}
	bad := shard
	bad.Err = errors.New(`no canary for 3s: "dial"`)
	for _, tt := range []struct {
		parts  []gyro.Health
		status int
		want   string
	}{
		{[]gyro.Health{node}, 200, `{"status":"ok","parts":[{"part":"node","delay_ms":1.235}]}`},
		{[]gyro.Health{node, shard, shard}, 200,
			`{"status":"ok","parts":[{"part":"node","delay_ms":1.235},{"part":"redis shard 0 (10.0.0.5:6379)","delay_ms":0}]}`},
		{[]gyro.Health{shard, bad}, 503,
			`{"status":"failing","parts":[{"part":"redis shard 0 (10.0.0.5:6379)","delay_ms":0},` +
				`{"part":"redis shard 0 (10.0.0.5:6379)","delay_ms":0,"error":"no canary for 3s: \"dial\""}]}`},
	} {
		h := Ready(func() []gyro.Health { return tt.parts })
		for _, m := range []string{"GET", "POST", "DELETE"} {
			expect(t, ask(h, m, "/health/ready"), tt.status, tt.want)
		}
	}
}

func TestLive(t *testing.T) {
	for _, m := range []string{"GET", "POST", "DELETE"} {
		expect(t, ask(Live(), m, "/health/live"), 200, "{}")
	}
}
