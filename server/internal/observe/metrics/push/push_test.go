package push_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/metrics/push"
)

// TestStart: what the configuration names is pushed to, at the latest when the server stops.
func TestStart(t *testing.T) {
	requests := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r.URL.Path }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	pushed := make(chan string, 1)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			data, _ := io.ReadAll(conn)
			conn.Close()
			pushed <- string(data)
		}
	}()
	r := prometheus.NewRegistry()
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gyro_node_num_clients"}, func() float64 { return 12 }))
	c := new(config.Config)
	start := func() push.Pushers {
		t.Helper()
		if err := push.Check(c); err != nil {
			t.Fatal(err)
		}
		p, err := push.Start(t.Context(), c, r, push.Node{UID: "u", Name: "host1_8000"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if push.Wanted(c) || len(start()) > 0 {
		t.Error("nothing is to be pushed")
	}
	start().Shutdown(t.Context())
	c.OpenTelemetry.Enabled, c.OpenTelemetry.Metrics = true, true
	c.Graphite = config.Graphite{Enabled: true, Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, Prefix: "centrifugo", Interval: time.Hour}
	if !push.Wanted(c) {
		t.Error("metrics are to be pushed")
	}
	start().Shutdown(t.Context())
	if path := <-requests; path != "/v1/metrics" {
		t.Error(path)
	}
	if text := <-pushed; !strings.HasPrefix(text, "centrifugo.host1_8000.gyro.node.num_clients 12.000000 1") {
		t.Error(text)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "pigeon")
	if err := push.Check(c); err == nil {
		t.Error("a variable that cannot be used is no error")
	}
}
