package app

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/config"
)

// TestHealthEndpoints: the paths below the prefix answer liveness and readiness whatever
// health.mode says; the prefix itself answers what the mode says.
func TestHealthEndpoints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		mode, prefix, self, live, ready string
		want                            string // how the body at self begins
	}{
		{"ready", "/health", "/health", "/health/live", "/health/ready", `{"status":"ok"`},
		{"live", "/health", "/health", "/health/live", "/health/ready", `{}`},
		{"live", "/internal/up/", "/internal/up", "/internal/up/live", "/internal/up/ready", `{}`},
		{"ready", "/", "/", "/live", "/ready", `{"status":"ok"`},
	} {
		s := startServer(t, func(cfg *config.Config) {
			cfg.Health.Enabled, cfg.Health.HandlerPrefix, cfg.Health.Mode = true, tt.prefix, tt.mode
		})
		for path, want := range map[string]string{tt.self: tt.want, tt.live: `{}`, tt.ready: `{"status":"ok"`} {
			if status, body := get(t, s.url(path)); status != http.StatusOK || !strings.HasPrefix(body, want) {
				t.Errorf("%s with mode %s: %d %s", path, tt.mode, status, body)
			}
		}
		if status, _ := get(t, s.url(tt.live+"/x")); status != http.StatusNotFound {
			t.Errorf("below %s: %d", tt.live, status)
		}
	}
	for prefix, want := range map[string]string{
		"/api/info": `http_api.handler_prefix: path "/api/info" is taken`,
		"/a?b":      `health.handler_prefix: "/a?b" is not a path`,
	} {
		cfg := testConfig(func(cfg *config.Config) { cfg.Health.Enabled, cfg.Health.HandlerPrefix = true, prefix })
		if _, err := New(cfg, Options{Logger: discard}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", prefix, err)
		}
	}
}

// TestChartProbes: the paths that the manifests probe are served, and none restarts a pod for
// what readiness says.
func TestChartProbes(t *testing.T) {
	t.Parallel()
	manifests, err := os.ReadFile("../../../deploy/kubernetes/gyro.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(cfg *config.Config) { cfg.Health.Enabled = true })
	want := map[string]string{"startup": "{}", "liveness": "{}", "readiness": `{"status":"ok"`}
	probes := regexp.MustCompile(`(\w+)Probe:\n\s+httpGet: \{path: (\S+), port: internal\}`).FindAllStringSubmatch(string(manifests), -1)
	if len(probes) != len(want) {
		t.Fatalf("probes: %q", probes)
	}
	for _, p := range probes {
		if status, body := get(t, s.url(p[2])); status != http.StatusOK || !strings.HasPrefix(body, want[p[1]]) {
			t.Errorf("%s probe at %s: %d %s", p[1], p[2], status, body)
		}
	}
}

// TestHealthIsTheSameEverywhere: what the readiness endpoint says of a node that begins to shut down, metrics
// and the admin interface say, too.
func TestHealthIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) { cfg.Health.Enabled, cfg.Prometheus.Enabled = true, true })
	s.wantMetric(1, "gyro_node_ready")
	if part := s.app.vitals.Parts()[0]; part.Error != "" {
		t.Errorf("the admin interface: %+v", part)
	}
	s.app.withdrawn.Store(true)
	if status, body := get(t, s.url("/health/ready")); status != http.StatusServiceUnavailable || !strings.Contains(body, errShuttingDown.Error()) {
		t.Errorf("readiness: %d %s", status, body)
	}
	s.wantMetric(0, "gyro_node_ready")
	if part := s.app.vitals.Parts()[0]; part.Error != errShuttingDown.Error() {
		t.Errorf("the admin interface: %+v", part)
	}
}
