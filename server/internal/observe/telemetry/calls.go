package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/proxy"
	"github.com/gyrohq/gyro/server/internal/queues"
)

// Proxies returns the tracer of calls to the backend; nil unless opentelemetry.proxy is set.
func (t *Tracer) Proxies() proxy.Tracer {
	if t == nil || !t.settings.Proxy {
		return nil
	}
	return proxies{t}
}

// proxies implements proxy.Tracer.
type proxies struct{ tracer *Tracer }

// Begin implements proxy.Tracer.
func (p proxies) Begin(ctx context.Context, c *proxy.Call) (context.Context, func(error)) {
	ctx, span := p.tracer.tracer.Start(ctx, "proxy "+c.Event.String(), trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(keyProxy.String(c.Name), keyConfig.String(c.Key))
		span.SetAttributes(endpointAttributes(c.Endpoint)...)
		if c.Protocol == "http" {
			url, _, _ := strings.Cut(c.Endpoint, "?") // a query may have secrets
			span.SetAttributes(attribute.String("http.request.method", "POST"), attribute.String("url.full", url))
		} else {
			service, method, _ := strings.Cut(c.Method, "/")
			span.SetAttributes(attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method))
		}
	}
	return ctx, func(err error) { end(span, err) }
}

// Inject implements proxy.Tracer.
func (p proxies) Inject(ctx context.Context, set func(name, value string)) {
	p.tracer.carry.Inject(ctx, to(set))
}

// Consumers returns a function that makes the tracer of a consumer; nil unless opentelemetry.consuming is set.
func (t *Tracer) Consumers() func(name, system string) queues.Tracer {
	if t == nil || !t.settings.Consuming {
		return nil
	}
	return func(name, system string) queues.Tracer {
		return &messages{tracer: t, attributes: []attribute.KeyValue{
			attribute.String("messaging.system", system), attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"), keyConsumer.String(name),
		}}
	}
}

// messages implements queues.Tracer for one consumer.
type messages struct {
	tracer     *Tracer
	attributes []attribute.KeyValue
}

// Begin implements queues.Tracer.
func (c *messages) Begin(ctx context.Context, msg *queues.Message, m api.Method, r api.Request) (context.Context, func(error)) {
	ctx, span := c.begin(ctx, msg, m, r)
	return ctx, func(err error) { endMessage(span, err) }
}

func (c *messages) begin(ctx context.Context, msg *queues.Message, m api.Method, r api.Request) (context.Context, trace.Span) {
	ctx = c.tracer.within(ctx, func(name string) string {
		for i := range msg.Attributes {
			if strings.EqualFold(msg.Attributes[i].Key, name) {
				return msg.Attributes[i].Value
			}
		}
		return ""
	})
	ctx, span := c.tracer.tracer.Start(ctx, "process "+m.String(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(c.attributes...))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.message.id", text(msg.ID)), keyMethod.String(m.String()))
		if ch := api.Channel(r); ch != "" {
			span.SetAttributes(channelOf(ch))
		}
	}
	return ctx, span
}

func endMessage(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		refused(span, err)
	}
	span.End()
}

// batchSpans are the spans of messages whose publications go to the engine together, by channel.
type batchSpans map[string]trace.Span

type batchSpansKey struct{}

// BeginBatch implements queues.Tracer. The call to the engine is a span within the span of each message, because
// messages may have traces of their own.
func (c *messages) BeginBatch(ctx context.Context, msgs []*queues.Message, publications []api.Command) (context.Context, []func(error)) {
	spans, ends := make(batchSpans, len(msgs)), make([]func(error), len(msgs))
	for i, m := range msgs {
		r := publications[i].Request
		_, span := c.begin(ctx, m, api.MethodPublish, r)
		ends[i] = func(err error) { endMessage(span, err) }
		if span.IsRecording() {
			spans[api.Channel(r)] = span
		}
	}
	if len(spans) > 0 {
		ctx = context.WithValue(ctx, batchSpansKey{}, spans)
	}
	return ctx, ends
}

// begin begins the spans of a call to the engine, for publications whose messages are sampled.
func (s batchSpans) begin(ctx context.Context, t *Tracer, batch []gyro.BatchPublication) (ends []func()) {
	for i := range batch {
		parent := s[batch[i].Channel]
		if parent == nil {
			continue
		}
		_, span := t.tracer.Start(trace.ContextWithSpan(ctx, parent), spanPublish,
			trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(batch)), channelOf(batch[i].Channel)))
		ends = append(ends, func() { done(span, batch[i].Err) })
	}
	return ends
}
