package app

import (
	"net/http"
	"strings"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/otlptest"
	"github.com/gyrohq/gyro/server/internal/web"
)

// traced turns all traces on.
func traced(cfg *config.Config) {
	cfg.OpenTelemetry = config.OpenTelemetry{Enabled: true, API: true, Consuming: true, Proxy: true, Client: true}
}

// traceparent names a span of a caller.
const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	traceparent = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// TestTraces: one trace leads from the RPC of a client by the proxy to the backend, and from there, by the server
// API, back to the engine. The collector gets it by both protocols of OTLP.
func TestTraces(t *testing.T) {
	for _, collector := range []*otlptest.Collector{otlptest.HTTP(t), otlptest.GRPC(t)} {
		t.Run(collector.Protocol, func(t *testing.T) {
			collector.Use(t)
			for carrier, open := range map[string]func(*testBackend){"http": (*testBackend).overHTTP, "grpc": (*testBackend).overGRPC} {
				b := &testBackend{t: t, answers: map[string]func() string{}, asked: map[string][]string{}}
				open(b)
				b.answer("Connect", `{"result":{"user":"u42"}}`)
				b.answer("RPC", `{"result":{"data":{"secret":"payload-of-the-backend"}}}`)
				s := startProxied(t, b, traced)
				c := s.dial(nil)
				c.Connect("")
				c.Do(`"rpc":{"method":"getDishes","data":{"secret":"payload-of-the-client"}}`)
				b.mu.Lock()
				sent := b.headers.Get("Traceparent")
				b.mu.Unlock()
				s.apiWith(http.Header{"Traceparent": {sent}}, "publish", `{"channel":"dishes","data":{"secret":"payload-of-the-api"}}`)

				part := func(of otlptest.Span) func(*otlptest.Span) bool {
					return func(s *otlptest.Span) bool { return s.Parent == of.ID && s.Trace == of.Trace }
				}
				fresh := func(s *otlptest.Span) bool { return strings.Contains(sent, s.Trace) }
				rpc := collector.Await(t, "client rpc", fresh)
				call := collector.Await(t, "proxy rpc", part(rpc))
				request := collector.Await(t, "POST /api/publish", part(call))
				engine := collector.Await(t, "engine publish", part(request))
				if want := "00-" + call.Trace + "-" + call.ID + "-01"; sent != want {
					t.Errorf("the backend got %q, want %q", sent, want)
				}
				wantAttributes(t, rpc, "gyro.method", "getDishes", "user.id", "u42")
				wantAttributes(t, call, "gyro.proxy", "default", "gyro.config.key", "rpc.proxy", "server.address", "127.0.0.1")
				wantAttributes(t, request, "gyro.channel", "dishes", "http.response.status_code", "200", "http.route", "/api/publish")
				wantAttributes(t, engine, "gyro.channel", "dishes")
				if rpc.Parent != "" || call.Kind != trace.Span_SPAN_KIND_CLIENT || request.Kind != trace.Span_SPAN_KIND_SERVER {
					t.Errorf("%s: %+v, %v, %v", carrier, rpc, call.Kind, request.Kind)
				}
				if r := rpc.Resource; r["service.name"] != "gyro" || r["service.instance.id"] != s.app.Node().UID() || r["version"] != "test" {
					t.Errorf("the resource is %v", r)
				}
			}
			for _, s := range collector.Spans() {
				for k, v := range s.Attributes {
					if strings.Contains(v, "payload-of") || strings.Contains(v, apiKey) {
						t.Errorf("%s: %s is %q", s.Name, k, v)
					}
				}
			}
		})
	}
}

func wantAttributes(t *testing.T, s otlptest.Span, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := s.Attributes[pairs[i]]; got != pairs[i+1] {
			t.Errorf("%s: %s is %q, want %q, in %v", s.Name, pairs[i], got, pairs[i+1], s.Attributes)
		}
	}
}

// apiWith is testServer.api with further headers; the answer may be an error.
func (s *testServer) apiWith(h http.Header, method, body string) string {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url(strings.TrimSuffix("/api/"+method, "/")), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range h {
		req.Header[name] = values
	}
	req.Header.Set("X-Api-Key", apiKey)
	_, answer := do(s.t, http.DefaultClient, req)
	return answer
}

// TestTracesOfRequests: each way into the server API takes the trace of its caller, and an error in an answer is
// the status of the span.
func TestTracesOfRequests(t *testing.T) {
	collector := otlptest.HTTP(t)
	collector.Use(t)
	s := startServer(t, func(cfg *config.Config) { traced(cfg); withGRPC(cfg) })
	caller := http.Header{"Traceparent": {traceparent}}
	ofCaller := func(s *otlptest.Span) bool { return s.Trace == callerTrace && s.Parent == callerSpan }
	conn := dialGRPC(s, web.GRPCAPI, nil)
	ctx := metadata.AppendToOutgoingContext(keyed(s), "traceparent", traceparent)

	for _, tt := range []struct {
		span, path, body, code string
	}{
		{"POST /api/publish", "publish", `{"channel":"a","data":1}`, ""},
		{"POST /api/broadcast", "broadcast", `{"channels":["a","unknown:b"],"data":1}`, "102"},
		{"POST /api/history", "history", `{"channel":"unknown:c"}`, "102"},
		{"POST /api/batch", "batch", `{"commands":[{"publish":{"channel":"unknown:d","data":1}}]}`, "102"},
		{"POST /api/info", "", `{"method":"info"}`, ""},
	} {
		s.apiWith(caller, tt.path, tt.body)
		span := collector.Await(t, tt.span, ofCaller)
		if span.Failed != (tt.code != "") || span.Attributes["gyro.error.code"] != tt.code {
			t.Errorf("%s: failed %v (%s), %v", tt.span, span.Failed, span.Status, span.Attributes)
		}
	}
	s.apiWith(caller, "presence", `{"channel":`)
	if span := collector.Await(t, "POST /api/presence", ofCaller); !span.Failed || span.Attributes["error.type"] != "unmarshal" {
		t.Errorf("%+v", span)
	}
	if _, err := apiSchema.Invoke(ctx, conn, "Publish", `channel:"unknown:a" data:"1"`); err != nil {
		t.Error(err)
	}
	span := collector.Await(t, "centrifugal.centrifugo.api.CentrifugoApi/Publish", ofCaller)
	wantAttributes(t, span, "rpc.system", "grpc", "rpc.method", "Publish", "gyro.channel", "unknown:a", "gyro.error.code", "102", "rpc.grpc.status_code", "0")
	if !span.Failed {
		t.Error("the span has not failed")
	}

	// A sender who is not known makes no spans.
	before := len(collector.Spans())
	if status, _ := do(t, http.DefaultClient, must(http.NewRequest(http.MethodPost, s.url("/api/refresh"), strings.NewReader(`{}`)))); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
	s.api("channels", `{}`)
	collector.Await(t, "POST /api/channels", nil)
	for _, span := range collector.Spans()[before:] {
		if strings.Contains(span.Name, "refresh") {
			t.Errorf("%+v", span)
		}
	}
}

// TestTracesOfClients: commands that fail, effects on loops and streams have spans, and what would block has one.
func TestTracesOfClients(t *testing.T) {
	collector := otlptest.HTTP(t)
	collector.Use(t)
	s := startServer(t, func(cfg *config.Config) {
		traced(cfg)
		addNamespace(cfg, "open", open)
	})
	c := s.connect("u")
	c.Subscribe("open:a", "")
	c.Call(`"history":{"channel":"none:b"}`)
	for _, name := range []string{"client connect", "engine attach"} {
		collector.Await(t, name, nil)
	}
	subscribe := collector.Await(t, "client subscribe", nil)
	wantAttributes(t, subscribe, "gyro.channel", "open:a", "user.id", "u")
	history := collector.Await(t, "client history", nil)
	wantAttributes(t, history, "gyro.channel", "none:b", "gyro.error.code", "102")
	if !history.Failed {
		t.Error("the span has not failed")
	}
}

// TestNoTraces: nothing is exported that is not switched on, and a collector that is down is a line of the log.
func TestNoTraces(t *testing.T) {
	collector := otlptest.HTTP(t)
	collector.Use(t)
	s := startServer(t, func(cfg *config.Config) { cfg.OpenTelemetry.Enabled = true })
	s.api("publish", `{"channel":"a","data":1}`)
	s.connect("u")
	s.stop()
	if got := collector.Spans(); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100")
	s = startServer(t, traced)
	s.expected = "exported"
	s.api("publish", `{"channel":"a","data":1}`)
	s.awaitLog("spans are lost, because they cannot be exported")
}

// TestTracesOfStreams: the opening of a stream is a span within that of the client's subscribe, the backend gets it as
// the parent of its own, and what the backend publishes by the server API is part of the trace. A refusal of the backend
// is a failed span.
func TestTracesOfStreams(t *testing.T) {
	collector := otlptest.GRPC(t)
	collector.Use(t)
	b := newStreamingBackend(t)
	s := startStreaming(t, b, traced)
	c := s.connect("u")
	for ch, method := range map[string]string{"news": "SubscribeUnidirectional", "both:news": "SubscribeBidirectional"} {
		c.Subscribe(ch, "")
		opened := <-b.opened
		sent := metadata.ValueFromIncomingContext(opened.Context(), "traceparent")
		subscribe := collector.Await(t, "client subscribe", func(s *otlptest.Span) bool { return s.Attributes["gyro.channel"] == ch })
		within := func(of *otlptest.Span) func(*otlptest.Span) bool {
			return func(s *otlptest.Span) bool { return s.Trace == of.Trace && s.Parent == of.ID }
		}
		call := collector.Await(t, "proxy subscribe_stream", within(&subscribe))
		if want := "00-" + call.Trace + "-" + call.ID + "-01"; len(sent) != 1 || sent[0] != want {
			t.Errorf("%s: the backend got %q, want %q", ch, sent, want)
		}
		wantAttributes(t, call, "rpc.system", "grpc", "rpc.method", method, "rpc.service", "centrifugal.centrifugo.proxy.CentrifugoProxy",
			"gyro.proxy", "default", "gyro.config.key", "channel.proxy.subscribe_stream")
		s.apiWith(http.Header{"Traceparent": sent}, "publish", `{"channel":"`+ch+`","data":{"n":1}}`)
		collector.Await(t, "POST /api/publish", within(&call))
		if p := c.Pub(); string(p.Data) != `{"n":1}` {
			t.Errorf("%+v", p)
		}
	}
	b.mu.Lock()
	b.answer = noAnswer
	b.mu.Unlock()
	c.Call(`"subscribe":{"channel":"refused"}`)
	if call := collector.Await(t, "proxy subscribe_stream", func(s *otlptest.Span) bool { return s.Failed }); call.Status == "" {
		t.Errorf("%+v", call)
	}
}
