package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/oauth"
)

// Values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// exportProtocol returns how spans are exported.
func exportProtocol() (string, error) {
	const all, traces = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	switch p := cmp.Or(os.Getenv(traces), os.Getenv(all), protocolHTTP); p {
	case protocolHTTP, protocolGRPC:
		return p, nil
	default:
		name := all
		if os.Getenv(traces) != "" {
			name = traces
		}
		return "", fmt.Errorf("%s: %q is none of %s and %s", name, p, protocolHTTP, protocolGRPC)
	}
}

// cloudScope is what the tokens of Google are for.
const cloudScope = "https://www.googleapis.com/auth/cloud-platform"

// newExporter returns an exporter. It reads the variables OTEL_EXPORTER_OTLP_* itself.
func newExporter(ctx context.Context, protocol string, google bool) (sdk.SpanExporter, error) {
	var tokens oauth2.TokenSource
	if google {
		var err error
		if tokens, err = googleTokens(); err != nil {
			return nil, err
		}
	}
	if protocol == protocolGRPC {
		var options []otlptracegrpc.Option
		if tokens != nil { // gRPC sends them over TLS alone
			options = append(options, otlptracegrpc.WithDialOption(grpc.WithPerRPCCredentials(oauth.TokenSource{TokenSource: tokens})))
		}
		return otlptracegrpc.New(ctx, options...)
	}
	var options []otlptracehttp.Option
	if tokens != nil {
		options = append(options, otlptracehttp.WithHTTPClient(&http.Client{
			Transport: &oauth2.Transport{Source: tokens, Base: http.DefaultTransport},
		}))
	}
	return otlptracehttp.New(ctx, options...)
}

// googleTokens returns tokens of the application default credentials. They are fetched when spans are exported.
func googleTokens() (oauth2.TokenSource, error) {
	// The context is that of all later fetches, so it must not end.
	found, err := google.FindDefaultCredentials(context.Background(), cloudScope)
	if err != nil {
		return nil, fmt.Errorf("opentelemetry.google_cloud_adc_auth: %w", err)
	}
	return found.TokenSource, nil
}
