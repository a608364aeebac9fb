// Package otlp pushes metrics to a collector by OTLP: all that Prometheus can scrape.
//
// The standard variables OTEL_* say where to and how often: OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_METRIC_EXPORT_INTERVAL (60 s by default) and others.
package otlp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// Config of a Pusher.
type Config struct {
	// Gatherer has the metrics.
	Gatherer prometheus.Gatherer
	// Node is the ID of the node, Version that of the server.
	Node, Version string
	// Logger gets a warning when a push fails, and a line when one succeeds after that.
	Logger *slog.Logger
}

// Pusher pushes metrics until Shutdown. A nil Pusher pushes nothing.
type Pusher struct {
	provider *sdk.MeterProvider
}

// Values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	overHTTP = "http/protobuf"
	overGRPC = "grpc"
)

// Check returns an error that names the variable whose value cannot be used.
func Check() error {
	_, err := protocol()
	if err == nil {
		_, err = describe(context.Background(), &Config{})
	}
	return err
}

func protocol() (string, error) {
	const all, own = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"
	p, name := os.Getenv(own), own
	if p == "" {
		p, name = cmp.Or(os.Getenv(all), overHTTP), all
	}
	if p != overHTTP && p != overGRPC {
		return "", fmt.Errorf("%s: %q is none of %s and %s", name, p, overHTTP, overGRPC)
	}
	return p, nil
}

// describe returns what the metrics are of. The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES overrule it.
func describe(ctx context.Context, c *Config) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName("gyro"), semconv.ServiceInstanceID(c.Node), semconv.ServiceVersion(c.Version)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return res, nil
}

// Start begins to push. It does not look for the collector.
func Start(ctx context.Context, c Config) (*Pusher, error) {
	p, err := protocol()
	if err != nil {
		return nil, err
	}
	res, err := describe(ctx, &c)
	if err != nil {
		return nil, err
	}
	var exporter sdk.Exporter
	if p == overGRPC {
		exporter, err = otlpmetricgrpc.New(ctx)
	} else {
		exporter, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("opentelemetry.metrics: %w", err)
	}
	reader := sdk.NewPeriodicReader(&reported{Exporter: exporter, log: c.Logger},
		sdk.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(c.Gatherer))))
	return &Pusher{sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(res))}, nil
}

// patience is how long Shutdown waits for the collector.
const patience = 3 * time.Second

// Shutdown pushes once more, for 3 s at most, and stops. It fails no shutdown: the log has what went wrong.
func (p *Pusher) Shutdown(ctx context.Context) {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = p.provider.Shutdown(ctx)
}

// reported logs what an exporter fails at. Its reader calls it from one goroutine at a time.
type reported struct {
	sdk.Exporter
	log    *slog.Logger
	failed bool
}

// Export implements sdk.Exporter.
func (r *reported) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	err := r.Exporter.Export(ctx, m)
	switch {
	case err != nil && !r.failed:
		r.log.Warn("metrics cannot be pushed by OTLP", "key", "opentelemetry.metrics", "error", err)
	case err == nil && r.failed:
		r.log.Info("metrics are pushed by OTLP again")
	}
	r.failed = err != nil
	return err
}
