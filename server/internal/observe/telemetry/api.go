package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
)

// apiTracer implements api.Tracer for requests by HTTP, or by gRPC.
type apiTracer struct {
	tracer  *Tracer
	methods []method // by api.Method
	status  attribute.Key
}

type method struct {
	name    string
	options []trace.SpanStartOption
}

func newMethod(m api.Method, name string, attributes ...attribute.KeyValue) method {
	attributes = append(attributes, keyMethod.String(m.String()))
	return method{name, []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...)}}
}

// HTTP returns the tracer of requests below a prefix; nil unless opentelemetry.api is set.
func (t *Tracer) HTTP(prefix string) api.Tracer {
	if t == nil || !t.settings.API {
		return nil
	}
	if prefix == "/" {
		prefix = ""
	}
	w := &apiTracer{tracer: t, status: "http.response.status_code"}
	for _, m := range api.Methods() {
		path := prefix + "/" + m.String()
		w.methods = append(w.methods, newMethod(m, "POST "+path, attribute.String("http.request.method", "POST"),
			attribute.String("http.route", path), attribute.String("url.path", path)))
	}
	return w
}

// GRPC returns the tracer of requests by gRPC; nil unless opentelemetry.api is set.
func (t *Tracer) GRPC() api.Tracer {
	if t == nil || !t.settings.API {
		return nil
	}
	w := &apiTracer{tracer: t, status: "rpc.grpc.status_code"}
	for _, m := range api.Methods() {
		w.methods = append(w.methods, newMethod(m, api.ServiceName+"/"+m.RPC(), attribute.String("rpc.system", "grpc"),
			attribute.String("rpc.service", api.ServiceName), attribute.String("rpc.method", m.RPC())))
	}
	return w
}

// Begin implements api.Tracer.
func (w *apiTracer) Begin(ctx context.Context, m api.Method, r api.Request, from api.Fields) (context.Context, api.Span) {
	ctx, span := w.begin(ctx, m, from)
	if !span.IsRecording() {
		return ctx, &request{span: span}
	}
	switch r := r.(type) {
	case *api.BroadcastRequest:
		span.SetAttributes(keyChannels.Int(len(r.Channels)))
	case *api.BatchRequest:
		span.SetAttributes(keyCommands.Int(len(r.Commands)))
	default:
		if ch := api.Channel(r); ch != "" {
			span.SetAttributes(channelOf(ch))
		}
	}
	return ctx, &request{span: span, status: w.status}
}

func (w *apiTracer) begin(ctx context.Context, m api.Method, from api.Fields) (context.Context, trace.Span) {
	of := &w.methods[m]
	return w.tracer.tracer.Start(w.tracer.within(ctx, from.Get), of.name, of.options...)
}

// Failed implements api.Tracer.
func (w *apiTracer) Failed(ctx context.Context, m api.Method, s api.Stage, from api.Fields) {
	_, span := w.begin(ctx, m, from)
	span.SetAttributes(attribute.String("error.type", string(s)))
	span.SetStatus(codes.Error, string(s))
	span.End()
}

// request implements api.Span.
type request struct {
	span   trace.Span
	status attribute.Key
	ended  bool
}

// End implements api.Span.
func (r *request) End(status int, res api.Result, err error) {
	r.ended = true
	if r.span.IsRecording() {
		r.span.SetAttributes(r.status.Int(status))
		if err == nil {
			err = firstError(res)
		}
		if err != nil {
			refused(r.span, err)
		}
	}
	r.span.End()
}

// Abort implements api.Span.
func (r *request) Abort() {
	if !r.ended {
		r.span.SetStatus(codes.Error, "panic")
		r.span.End()
	}
}

func refused(span trace.Span, err error) {
	e := api.AsError(err)
	span.SetAttributes(keyCode.Int(int(e.Code)), attribute.String("error.type", strconv.Itoa(int(e.Code))))
	span.SetStatus(codes.Error, text(e.Message))
}

func firstError(res api.Result) error {
	switch res := res.(type) {
	case *api.BroadcastResult:
		for i := range res.Responses {
			if err := res.Responses[i].Error; err != nil {
				return err
			}
		}
	case *api.BatchResponse:
		for i := range res.Replies {
			if err, failed := res.Replies[i].Result.(*api.Error); failed {
				return err
			}
			if err := firstError(res.Replies[i].Result); err != nil {
				return err
			}
		}
	}
	return nil
}

// Node returns a node whose calls to engines and other nodes are spans within the spans of requests; n itself if nothing
// is traced.
func (t *Tracer) Node(n api.Node) api.Node {
	if t == nil || !t.settings.API && !t.settings.Consuming {
		return n
	}
	return &node{n, t}
}

// node implements api.Node.
type node struct {
	api.Node
	tracer *Tracer
}

// call begins no span without a sampled request.
func (n *node) call(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if parent := trace.SpanFromContext(ctx); !parent.IsRecording() {
		return ctx, nil
	}
	return n.tracer.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
}

func done(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		refused(span, err)
	}
	span.End()
}

const spanPublish = "engine publish"

// PublishBatch implements api.Node.
func (n *node) PublishBatch(ctx context.Context, batch []gyro.BatchPublication) {
	if spans, ok := ctx.Value(batchSpansKey{}).(batchSpans); ok {
		ends := spans.begin(ctx, n.tracer, batch)
		n.Node.PublishBatch(ctx, batch)
		for _, end := range ends {
			end()
		}
		return
	}
	ctx, span := n.call(ctx, spanPublish, attribute.Int("messaging.batch.message_count", len(batch)))
	n.Node.PublishBatch(ctx, batch)
	if span == nil {
		return
	}
	if len(batch) == 1 {
		span.SetAttributes(channelOf(batch[0].Channel))
	}
	var errs error
	for i := range batch {
		if errs = batch[i].Err; errs != nil {
			break
		}
	}
	done(span, errs)
}

// Subscribe implements api.Node.
func (n *node) Subscribe(ctx context.Context, t gyro.Target, ch string, o *gyro.SubscribeOptions) error {
	ctx, span := n.call(ctx, "node subscribe", channelOf(ch))
	err := n.Node.Subscribe(ctx, t, ch, o)
	done(span, err)
	return err
}

// Unsubscribe implements api.Node.
func (n *node) Unsubscribe(ctx context.Context, t gyro.Target, ch string, u *gyro.Unsubscribe) error {
	ctx, span := n.call(ctx, "node unsubscribe", channelOf(ch))
	err := n.Node.Unsubscribe(ctx, t, ch, u)
	done(span, err)
	return err
}

// Disconnect implements api.Node.
func (n *node) Disconnect(ctx context.Context, t gyro.Target, o *gyro.DisconnectOptions) error {
	ctx, span := n.call(ctx, "node disconnect")
	err := n.Node.Disconnect(ctx, t, o)
	done(span, err)
	return err
}

// Refresh implements api.Node.
func (n *node) Refresh(ctx context.Context, t gyro.Target, o *gyro.RefreshOptions) error {
	ctx, span := n.call(ctx, "node refresh")
	err := n.Node.Refresh(ctx, t, o)
	done(span, err)
	return err
}

// Presence implements api.Node.
func (n *node) Presence(ctx context.Context, ch string) (map[string]*gyro.ClientInfo, error) {
	ctx, span := n.call(ctx, "engine presence", channelOf(ch))
	clients, err := n.Node.Presence(ctx, ch)
	done(span, err)
	return clients, err
}

// PresenceStats implements api.Node.
func (n *node) PresenceStats(ctx context.Context, ch string) (gyro.PresenceStats, error) {
	ctx, span := n.call(ctx, "engine presence_stats", channelOf(ch))
	stats, err := n.Node.PresenceStats(ctx, ch)
	done(span, err)
	return stats, err
}

// History implements api.Node.
func (n *node) History(ctx context.Context, ch string, f *gyro.HistoryFilter) (gyro.History, error) {
	ctx, span := n.call(ctx, "engine history", channelOf(ch))
	history, err := n.Node.History(ctx, ch, f)
	done(span, err)
	return history, err
}

// RemoveHistory implements api.Node.
func (n *node) RemoveHistory(ctx context.Context, ch string) error {
	ctx, span := n.call(ctx, "engine history_remove", channelOf(ch))
	err := n.Node.RemoveHistory(ctx, ch)
	done(span, err)
	return err
}

// Channels implements api.Node.
func (n *node) Channels(ctx context.Context, pattern string) (map[string]int, error) {
	ctx, span := n.call(ctx, "cluster survey")
	channels, err := n.Node.Channels(ctx, pattern)
	done(span, err)
	return channels, err
}
