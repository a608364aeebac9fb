package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gyrohq/gyro/server/internal/observe/otlpenv"
)

// newExporter leaves the variables OTEL_EXPORTER_OTLP_* to the SDK.
func newExporter(ctx context.Context, protocol string, google bool) (sdk.SpanExporter, error) {
	var overHTTP []otlptracehttp.Option
	var overGRPC []otlptracegrpc.Option
	if google {
		client, dial, err := otlpenv.Google()
		if err != nil {
			return nil, err
		}
		overHTTP, overGRPC = append(overHTTP, otlptracehttp.WithHTTPClient(client)), append(overGRPC, otlptracegrpc.WithDialOption(dial))
	}
	if protocol != otlpenv.GRPC {
		return otlptracehttp.New(ctx, overHTTP...)
	}
	exporter, err := otlptracegrpc.New(ctx, overGRPC...)
	if google {
		err = otlpenv.ByGoogle(err)
	}
	return exporter, err
}
