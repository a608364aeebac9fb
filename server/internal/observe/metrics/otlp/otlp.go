// Package otlp pushes all metrics that Prometheus can scrape to a collector by OTLP. The standard variables OTEL_* say
// where to and how often.
package otlp

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gyrohq/gyro/logging"
	"github.com/gyrohq/gyro/server/internal/observe/otlpenv"
)

// Config of a Pusher.
type Config struct {
	Gatherer prometheus.Gatherer
	// Google authenticates by Google application default credentials.
	Google        bool
	Node, Version string
	Logger        *slog.Logger
}

// Pusher pushes metrics until Shutdown.
type Pusher struct {
	provider *sdk.MeterProvider
}

// Check returns an error that names the variable whose value cannot be used.
func Check() error {
	_, err := otlpenv.Protocol("METRICS")
	if err == nil {
		_, err = otlpenv.Resource(context.Background(), "", "")
	}
	return err
}

// Start begins to push. It does not look for the collector.
func Start(ctx context.Context, c Config) (*Pusher, error) {
	res, err := otlpenv.Resource(ctx, c.Node, c.Version)
	if err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx, c.Google)
	if err != nil {
		return nil, fmt.Errorf("opentelemetry.metrics: %w", err)
	}
	reader := sdk.NewPeriodicReader(&reported{Exporter: exporter, log: c.Logger},
		sdk.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(c.Gatherer))))
	return &Pusher{sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(res))}, nil
}

// newExporter leaves the variables OTEL_EXPORTER_OTLP_* to the SDK.
func newExporter(ctx context.Context, google bool) (sdk.Exporter, error) {
	var overHTTP []otlpmetrichttp.Option
	var overGRPC []otlpmetricgrpc.Option
	if google {
		client, dial, err := otlpenv.Google()
		if err != nil {
			return nil, err
		}
		overHTTP, overGRPC = append(overHTTP, otlpmetrichttp.WithHTTPClient(client)), append(overGRPC, otlpmetricgrpc.WithDialOption(dial))
	}
	switch protocol, err := otlpenv.Protocol("METRICS"); {
	case err != nil:
		return nil, err
	case protocol == otlpenv.GRPC:
		exporter, err := otlpmetricgrpc.New(ctx, overGRPC...)
		if google {
			err = otlpenv.ByGoogle(err)
		}
		return exporter, err
	}
	return otlpmetrichttp.New(ctx, overHTTP...)
}

// Shutdown pushes once more, until ctx ends, and stops. It fails no shutdown: errors go to the log.
func (p *Pusher) Shutdown(ctx context.Context) {
	_ = p.provider.Shutdown(ctx)
}

// reported logs the errors of an exporter. One goroutine at a time calls it.
type reported struct {
	sdk.Exporter
	log    *slog.Logger
	outage logging.Outage
}

// Export implements sdk.Exporter.
func (r *reported) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	err := r.Exporter.Export(ctx, m)
	if err != nil {
		if r.outage.Fail(err) == 1 {
			r.log.Warn("metrics cannot be pushed by OTLP", "key", "opentelemetry.metrics", "error", err)
		}
	} else if failures, _ := r.outage.End(); failures > 0 {
		r.log.Info("metrics are pushed by OTLP again")
	}
	return err
}
