// Package otlpenv reads the standard variables OTEL_* that concern traces and metrics by OTLP.
package otlpenv

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/oauth"
)

// Values of OTEL_EXPORTER_OTLP_PROTOCOL.
const (
	HTTP = "http/protobuf"
	GRPC = "grpc"
)

// Protocol returns how a signal, TRACES or METRICS, is exported. The error names the variable.
func Protocol(signal string) (string, error) {
	own, all := "OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
	switch p := cmp.Or(os.Getenv(own), os.Getenv(all), HTTP); p {
	case HTTP, GRPC:
		return p, nil
	default:
		name := all
		if os.Getenv(own) != "" {
			name = own
		}
		return "", fmt.Errorf("%s: %q is none of %s and %s", name, p, HTTP, GRPC)
	}
}

// Resource describes the process. The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES overrule it.
func Resource(ctx context.Context, node, version string) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName("gyro"), semconv.ServiceInstanceID(node), semconv.ServiceVersion(version),
			attribute.String("version", version)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return res, nil
}

const cloudScope = "https://www.googleapis.com/auth/cloud-platform"

// Google returns a client for HTTP and an option for gRPC that authenticate exports by application default credentials.
// The option sends tokens over TLS alone.
func Google() (*http.Client, grpc.DialOption, error) {
	// All later fetches use this context too, so it must not end.
	found, err := google.FindDefaultCredentials(context.Background(), cloudScope)
	if err != nil {
		return nil, nil, fmt.Errorf("opentelemetry.google_cloud_adc_auth: %w", err)
	}
	client := &http.Client{Transport: &oauth2.Transport{Source: found.TokenSource, Base: http.DefaultTransport}}
	return client, grpc.WithPerRPCCredentials(oauth.TokenSource{TokenSource: found.TokenSource}), nil
}

// ByGoogle names the key in the error of an exporter by gRPC with Google's option: mostly it has no TLS.
func ByGoogle(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("opentelemetry.google_cloud_adc_auth: over gRPC, OTEL_EXPORTER_OTLP_ENDPOINT has to begin with https://: %w", err)
}
