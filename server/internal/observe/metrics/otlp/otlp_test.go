package otlp_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gyrohq/gyro/metrics"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/server/internal/observe/metrics/otlp"
)

// The collector gets what a scrape has, with the node as resource: counters, gauges, histograms, native ones too.
func TestPush(t *testing.T) {
	requests := make(chan *collector.ExportMetricsServiceRequest, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := new(collector.ExportMetricsServiceRequest)
		if err == nil {
			err = proto.Unmarshal(body, req)
		}
		if err != nil || r.URL.Path != "/v1/metrics" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		requests <- req
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer s.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "region=north")
	for name, native := range map[string]bool{"classic": false, "native": true} {
		t.Run(name, func(t *testing.T) {
			m := metrics.New(metrics.Config{NativeHistograms: native})
			m.Observer().Turn(&observe.Turn{
				Commands:    []observe.Command{{Method: observe.MessageRPC, Code: 108}},
				Connections: []observe.Connections{{Transport: "websocket", Connected: 3}},
			})
			r := prometheus.NewRegistry()
			r.MustRegister(m)
			p, err := otlp.Start(t.Context(), otlp.Config{Gatherer: r, Node: "node-1", Version: "v1", Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			p.Shutdown(t.Context())
			req := <-requests
			attributes := make(map[string]string)
			for _, a := range req.ResourceMetrics[0].Resource.Attributes {
				attributes[a.Key] = a.Value.GetStringValue()
			}
			if attributes["service.name"] != "gyro" || attributes["service.instance.id"] != "node-1" || attributes["region"] != "north" {
				t.Errorf("resource %v", attributes)
			}
			kinds := make(map[string]string)
			for _, scope := range req.ResourceMetrics[0].ScopeMetrics {
				for _, m := range scope.Metrics {
					switch {
					case m.GetSum() != nil:
						kinds[m.Name] = "sum"
					case m.GetGauge() != nil:
						kinds[m.Name] = "gauge"
					case m.GetHistogram() != nil:
						kinds[m.Name] = "histogram"
					case m.GetExponentialHistogram() != nil:
						kinds[m.Name] = "exponential histogram"
					}
				}
			}
			histogram := "histogram"
			if native {
				histogram = "exponential histogram"
			}
			for family, want := range map[string]string{
				"gyro_client_num_reply_errors": "sum", "gyro_client_connections_inflight": "gauge",
				"gyro_client_command_duration_seconds_histogram": histogram,
			} {
				if kinds[family] != want {
					t.Errorf("%s is %q, want %q, of %v", family, kinds[family], want, kinds)
				}
			}
		})
	}
}

// A collector that is not there is a line of the log, once, and no reason to wait.
func TestNoCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	var log strings.Builder
	p, err := otlp.Start(t.Context(), otlp.Config{Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Shutdown(ctx)
	if n := strings.Count(log.String(), "metrics cannot be pushed by OTLP"); n > 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

// Values that cannot be used are named.
func TestVariables(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "carrier-pigeon", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/json", "OTEL_RESOURCE_ATTRIBUTES": "nonsense",
	} {
		t.Run(name, func(t *testing.T) {
			if err := otlp.Check(); err != nil {
				t.Fatal(err)
			}
			t.Setenv(name, value)
			if err := otlp.Check(); err == nil || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
		})
	}
}
