package telemetry

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Attributes that the semantic conventions of OpenTelemetry do not have.
const (
	keyChannel  = attribute.Key("gyro.channel")
	keyChannels = attribute.Key("gyro.channels") // their number
	keyClient   = attribute.Key("gyro.client")
	keyMethod   = attribute.Key("gyro.method")
	keyCommands = attribute.Key("gyro.commands") // the number of commands of a batch
	keyCode     = attribute.Key("gyro.error.code")
	keyProxy    = attribute.Key("gyro.proxy")
	keyConfig   = attribute.Key("gyro.config.key")
	keyConsumer = attribute.Key("gyro.consumer")
)

// In bytes, for texts from outside.
const maxText = 256

func text(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}

func channelOf(ch string) attribute.KeyValue { return keyChannel.String(text(ch)) }

// parent finds the header with the parent of a span. It implements propagation.TextMapCarrier.
type parent func(name string) string

func (p parent) Get(name string) string { return p(name) }
func (parent) Set(string, string)       {}
func (parent) Keys() []string           { return nil }

// to sets a header. It implements propagation.TextMapCarrier.
type to func(name, value string)

func (to) Get(string) string        { return "" }
func (t to) Set(name, value string) { t(name, value) }
func (to) Keys() []string           { return nil }

// within returns a context with the remote span that the headers name. Its parent is always remote, so ctx may be the
// context of any request.
func (t *Tracer) within(ctx context.Context, get func(name string) string) context.Context {
	return t.carry.Extract(ctx, parent(get))
}

// failed takes constants, or errors of the network: the reason of a refusal, or the answer.
func failed(span trace.Span, err error) {
	if code := codeOf(err); code != 0 {
		span.SetAttributes(keyCode.Int(int(code)), attribute.String("error.type", strconv.Itoa(int(code))))
	} else {
		span.SetAttributes(attribute.String("error.type", "_OTHER"))
	}
	_, why := refusal.Explain(err)
	span.SetStatus(codes.Error, text(why))
}

func codeOf(err error) uint32 {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Code
	}
	d, _ := errors.AsType[protocol.Disconnect](err)
	return d.Code
}

var names = map[string]string{
	"Connecting": "client connect", "Connected": "client connected", "Subscribe": "client subscribe", "Unsubscribed": "client unsubscribed",
	"Publish": "client publish", "Presence": "client presence", "PresenceStats": "client presence_stats", "History": "client history",
	"RPC": "client rpc", "Message": "client send", "Refresh": "client refresh", "SubRefresh": "client sub_refresh",
	"Disconnected": "client disconnected", "Track": "client track",
	"attach": "engine attach", "detach": "engine detach", "renew": "engine renew", "join": "engine join", "map page": "engine map page",
}

// Effect implements observe.Observer: handlers and calls to engines on behalf of clients are spans.
func (t *Tracer) Effect(ctx context.Context, e observe.Effect) (context.Context, func(error)) {
	if e.Inline {
		// An inline effect begins nothing that has a span. If it would block, it is tried again on a goroutine, and that
		// is the span.
		begin := time.Now()
		return ctx, func(err error) {
			if !errors.Is(err, gyro.ErrWouldBlock) {
				_, span := t.effect(ctx, &e, trace.WithTimestamp(begin))
				end(span, err)
			}
		}
	}
	ctx, span := t.effect(ctx, &e)
	return ctx, func(err error) { end(span, err) }
}

func (t *Tracer) effect(ctx context.Context, e *observe.Effect, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	name := names[e.Name]
	if name == "" {
		name = "node " + strings.ToLower(e.Name)
	}
	kind := trace.SpanKindInternal
	if strings.HasPrefix(name, "client ") {
		kind = trace.SpanKindServer
	}
	ctx, span := t.tracer.Start(ctx, name, append(o, trace.WithSpanKind(kind))...)
	if !span.IsRecording() {
		return ctx, span
	}
	if e.Client != nil {
		span.SetAttributes(keyClient.String(e.Client.ID()))
		if user := e.Client.UserID(); user != "" {
			span.SetAttributes(attribute.String("user.id", text(user)))
		}
	}
	if e.Channel != "" {
		span.SetAttributes(channelOf(e.Channel))
	}
	if e.Method != "" {
		span.SetAttributes(keyMethod.String(text(e.Method)))
	}
	return ctx, span
}

func end(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		failed(span, err)
	}
	span.End()
}

func endpointAttributes(endpoint string) []attribute.KeyValue {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" { // host:port, or a target of gRPC
		return []attribute.KeyValue{attribute.String("server.address", endpoint)}
	}
	attributes := []attribute.KeyValue{attribute.String("server.address", u.Hostname())}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		attributes = append(attributes, attribute.Int("server.port", port))
	}
	return attributes
}
