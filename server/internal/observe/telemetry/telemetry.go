// Package telemetry makes traces with OpenTelemetry and exports them by OTLP (docs/tracing.md): spans of requests to the
// server API, of calls to the backend, of messages of queues, and of the node's work for clients. Spans have channels,
// methods and IDs, but no payloads and no tokens. The traced packages declare the interfaces that a Tracer implements,
// so they do not know OpenTelemetry.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/otlpenv"
)

const scope = "github.com/gyrohq/gyro/server"

// Config of a Tracer.
type Config struct {
	OpenTelemetry *config.OpenTelemetry
	Version       string
	// Logger gets spans that cannot be exported.
	Logger *slog.Logger
}

// Tracer makes and exports spans. Any goroutine may call its methods, but Start and Shutdown. Spans that begin before
// Start or after Shutdown are not exported.
type Tracer struct {
	log      *slog.Logger
	version  string
	settings *config.OpenTelemetry
	sampler  sdk.Sampler
	protocol string

	tracer   trace.Tracer
	carry    propagation.TraceContext
	provider *sdk.TracerProvider // nil: not started, or nothing is exported
}

// New checks the configuration and the variables OTEL_*. It returns nil if tracing is off: by the section opentelemetry,
// by OTEL_SDK_DISABLED=true or by OTEL_TRACES_EXPORTER=none. An error names the key or the variable.
func New(c Config) (*Tracer, error) {
	o := c.OpenTelemetry
	if none := !o.API && !o.Consuming && !o.Proxy && !o.Client; !o.Enabled || none || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is none of otlp and none", exporter)
	}
	t := &Tracer{log: c.Logger, version: c.Version, settings: o, tracer: noop.NewTracerProvider().Tracer(scope)}
	var err error
	if t.protocol, err = otlpenv.Protocol("TRACES"); err != nil {
		return nil, err
	}
	if t.sampler, err = sampler(o.Sampler); err != nil {
		return nil, err
	}
	_, err = otlpenv.Resource(context.Background(), "", t.version)
	return t, err
}

// Start begins to export. node is the ID of the node. The first export looks for the collector.
func (t *Tracer) Start(ctx context.Context, node string) error {
	if t == nil {
		return nil
	}
	res, err := otlpenv.Resource(ctx, node, t.version)
	if err != nil {
		return err
	}
	exporter, err := newExporter(ctx, t.protocol, t.settings.GoogleCloudADCAuth)
	if err != nil {
		return err
	}
	takeErrors(t.log)
	t.provider = sdk.NewTracerProvider(
		sdk.WithResource(res), sdk.WithSampler(t.sampler), sdk.WithBatcher(&reported{SpanExporter: exporter, log: t.log}),
	)
	t.tracer = t.provider.Tracer(scope, trace.WithInstrumentationVersion(t.version))
	t.log.Info("traces are exported by OTLP", "protocol", t.protocol, "sampler", t.sampler.Description())
	return nil
}

const patience = 3 * time.Second

// Shutdown exports the ended spans, until ctx ends and for 3 s at most, and stops exporting.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil || t.provider == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Error("the last spans cannot be exported", "error", err)
	}
	return nil // lost spans fail no shutdown
}

// sampler follows opentelemetry.sampler, else OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, else
// parentbased_always_on.
func sampler(key string) (sdk.Sampler, error) {
	from, text := "opentelemetry.sampler", key
	name, arg, _ := strings.Cut(key, "=")
	if key == "" {
		from, name, arg = "OTEL_TRACES_SAMPLER", os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG")
		text = name
	}
	name = strings.ToLower(strings.TrimSpace(name))
	ratio := 1.0
	if strings.HasSuffix(name, "traceidratio") && arg != "" {
		var err error
		if ratio, err = strconv.ParseFloat(strings.TrimSpace(arg), 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("%s: the ratio %q is no number from 0 to 1", from, arg)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return sdk.ParentBased(sdk.AlwaysSample()), nil
	case "always_on":
		return sdk.AlwaysSample(), nil
	case "always_off":
		return sdk.NeverSample(), nil
	case "traceidratio":
		return sdk.TraceIDRatioBased(ratio), nil
	case "parentbased_always_off":
		return sdk.ParentBased(sdk.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdk.ParentBased(sdk.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("%s: %q is none of always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off "+
		"and parentbased_traceidratio", from, text)
}

type reported struct {
	sdk.SpanExporter
	log *slog.Logger
}

// ExportSpans implements sdk.SpanExporter.
func (r *reported) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := r.SpanExporter.ExportSpans(ctx, spans); err != nil {
		r.log.Error("spans are lost, because they cannot be exported", "spans", len(spans), "error", err)
	}
	return nil
}

// takeErrors logs errors that the OpenTelemetry library does not return, such as a part of an export that the collector
// refused. A process has one place for them.
func takeErrors(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("OpenTelemetry", "error", err) }))
}
