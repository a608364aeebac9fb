package telemetry_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/observe/telemetry"
	"github.com/gyrohq/gyro/server/internal/queues"
	"github.com/gyrohq/gyro/server/internal/testkit/otlptest"
)

func newTracer(edit func(*config.OpenTelemetry)) (*telemetry.Tracer, error) {
	o := config.OpenTelemetry{Enabled: true, API: true, Consuming: true}
	if edit != nil {
		edit(&o)
	}
	return telemetry.New(telemetry.Config{OpenTelemetry: &o, Version: "v", Logger: slog.New(slog.DiscardHandler)})
}

func start(t *testing.T, edit func(*config.OpenTelemetry)) *telemetry.Tracer {
	t.Helper()
	tracer, err := newTracer(edit)
	if err == nil {
		err = tracer.Start(t.Context(), "node")
	}
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// TestSettings: what is wrong with the configuration and the variables is an error that names the key, and variables
// can switch tracing off.
func TestSettings(t *testing.T) {
	for _, tt := range []struct{ env, sampler, want string }{
		{"", "", ""}, {"", "always_off", ""}, {"", "parentbased_traceidratio=0.25", ""}, {"OTEL_TRACES_SAMPLER=always_off", "", ""},
		{"OTEL_SDK_DISABLED=true", "", "off"}, {"OTEL_TRACES_EXPORTER=none", "", "off"}, {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "", ""},
		{"", "sometimes", "opentelemetry.sampler"}, {"", "traceidratio=2", "opentelemetry.sampler"}, {"", "traceidratio=NaN", "opentelemetry.sampler"},
		{"OTEL_TRACES_SAMPLER=often", "", "OTEL_TRACES_SAMPLER"}, {"OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=x", "", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"}, {"OTEL_TRACES_EXPORTER=console", "", "OTEL_TRACES_EXPORTER"},
		{"OTEL_RESOURCE_ATTRIBUTES=no pair", "", "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(tt.env+tt.sampler, func(t *testing.T) {
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				t.Setenv(name, value)
			}
			tracer, err := newTracer(func(o *config.OpenTelemetry) { o.Sampler = tt.sampler })
			switch {
			case tt.want == "" && (err != nil || tracer == nil), tt.want == "off" && (err != nil || tracer != nil):
				t.Errorf("%v, %v", tracer, err)
			case tt.want != "" && tt.want != "off" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)):
				t.Errorf("%v, want an error about %s", err, tt.want)
			}
		})
	}
}

// TestSampling: a caller decides for its own traces, and the sampler for others.
func TestSampling(t *testing.T) {
	collector := otlptest.HTTP(t)
	collector.Use(t)
	t.Setenv("OTEL_SERVICE_NAME", "chat")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "version=mine")
	tracer := start(t, func(o *config.OpenTelemetry) { o.Sampler = "parentbased_always_off" })
	request := func(m api.Method, traceparent string) {
		_, span := tracer.HTTP("/api").Begin(t.Context(), m, m.NewRequest(), http.Header{"Traceparent": {traceparent}})
		span.End(200, nil, nil)
	}
	request(api.MethodPublish, "")
	request(api.MethodHistory, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	request(api.MethodPresence, "not a parent")
	request(api.MethodInfo, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].Name != "POST /api/info" || spans[0].Parent != "00f067aa0ba902b7" {
		t.Fatalf("%+v", spans)
	}
	if r := spans[0].Resource; r["service.name"] != "chat" || r["service.instance.id"] != "node" || r["version"] != "mine" || r["service.version"] != "v" {
		t.Errorf("%v", r)
	}
}

// TestPanic: the span of a request that panics ends, and has failed.
func TestPanic(t *testing.T) {
	collector := otlptest.HTTP(t)
	collector.Use(t)
	tracer := start(t, nil)
	func() {
		defer func() { _ = recover() }()
		_, span := tracer.GRPC().Begin(t.Context(), api.MethodInfo, api.MethodInfo.NewRequest(), http.Header{})
		defer span.Abort()
		panic("by the test")
	}()
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if spans := collector.Spans(); len(spans) != 1 || !spans[0].Failed {
		t.Errorf("%+v", spans)
	}
}

// TestMessages: the span of a message is part of the trace that its attributes name, and fails with its command.
func TestMessages(t *testing.T) {
	collector := otlptest.GRPC(t)
	collector.Use(t)
	tracer := start(t, nil)
	of := tracer.Consumers()("orders", "kafka")
	m := &queues.Message{ID: "m1", Attributes: []queues.Attribute{
		{Key: "other", Value: "x"}, {Key: "TraceParent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}}
	_, end := of.Begin(t.Context(), m, api.MethodPublish, &api.PublishRequest{Channel: "a", Data: []byte("payload-of-the-test")})
	end(api.ErrUnknownChannel)
	_, end = of.Begin(t.Context(), &queues.Message{ID: "m2"}, api.MethodPublish, &api.PublishRequest{Channel: "b"})
	end(nil)
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := collector.Await(t, "process publish", func(s *otlptest.Span) bool { return s.Attributes["messaging.message.id"] == "m1" })
	if a := first.Attributes; first.Trace != "4bf92f3577b34da6a3ce929d0e0e4736" || !first.Failed || a["messaging.system"] != "kafka" || a["gyro.channel"] != "a" ||
		a["gyro.consumer"] != "orders" || a["gyro.error.code"] != "102" {
		t.Errorf("%+v", first)
	}
	second := collector.Await(t, "process publish", func(s *otlptest.Span) bool { return s.Attributes["messaging.message.id"] == "m2" })
	if second.Parent != "" || second.Failed {
		t.Errorf("%+v", second)
	}
	if text := fmt.Sprint(collector.Spans()); strings.Contains(text, "payload") {
		t.Errorf("%s", text)
	}
}

// fakeNode refuses publications in one channel.
type fakeNode struct {
	api.Node
	refuses string
}

func (n *fakeNode) PublishBatch(_ context.Context, batch []gyro.BatchPublication) {
	for i := range batch {
		if batch[i].Channel == n.refuses {
			batch[i].Err = errors.New("the engine is down")
		}
	}
}

// TestBatch: messages that go to the engine together have spans of their own, each with the call to the engine for its
// publication, in the trace of its sender. What is not sampled, or not published, has no such call.
func TestBatch(t *testing.T) {
	collector := otlptest.HTTP(t)
	collector.Use(t)
	tracer := start(t, nil)
	resolver, err := channels.NewResolver(config.DefaultConfig().Channel, config.PersonalChannel{})
	if err != nil {
		t.Fatal(err)
	}
	exec := api.NewExecutor(api.Config{
		Node: tracer.Node(&fakeNode{refuses: "b"}), Channels: func() *channels.Resolver { return resolver }, Logger: slog.New(slog.DiscardHandler),
	})
	p := queues.NewProcessor(queues.Config{
		Executor: exec, Meter: queues.NoMeter{}, Logger: slog.New(slog.DiscardHandler),
		Tracer: tracer.Consumers()("orders", "kafka"),
	})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e473%d-00f067aa0ba902b7-0%d"
	message := func(method, payload string, caller, sampled int) *queues.Message {
		return &queues.Message{
			ID: payload, Method: method, Payload: []byte(payload),
			Attributes: []queues.Attribute{{Key: "traceparent", Value: fmt.Sprintf(parent, caller, sampled)}},
		}
	}
	p.Process(t.Context(), []*queues.Message{
		message("publish", `{"channel":"a","data":1}`, 1, 1), message("publish", `{"channel":"b","data":1}`, 2, 1),
		message("publish", `{"channel":"unknown:c","data":1}`, 3, 1), message("publish", `{"channel":"d","data":1}`, 4, 0),
		message("publish", `{"channel":"e","data":1}`, 5, 1),
		message("broadcast", `{"channels":["a","b"],"data":1}`, 6, 1),
	})
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	spans := collector.Spans()
	for _, s := range spans {
		parent := "the sender"
		for _, of := range spans {
			if of.ID == s.Parent {
				parent = of.Name
			}
		}
		a := s.Attributes
		got = append(got, fmt.Sprintf("trace %s: %s of %q (%s) within %s, failed %v", s.Trace[31:], s.Name, a["gyro.channel"], a["messaging.batch.message_count"], parent, s.Failed))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{
		`trace 1: engine publish of "a" (4) within process publish, failed false`,
		`trace 1: process publish of "a" () within the sender, failed false`,
		`trace 2: engine publish of "b" (4) within process publish, failed true`,
		`trace 2: process publish of "b" () within the sender, failed true`,
		`trace 3: process publish of "unknown:c" () within the sender, failed true`,
		`trace 5: engine publish of "e" (4) within process publish, failed false`,
		`trace 5: process publish of "e" () within the sender, failed false`,
		`trace 6: engine publish of "" (2) within process broadcast, failed true`,
		`trace 6: process broadcast of "" () within the sender, failed false`,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// credentials makes a file with application default credentials, whose tokens come from a token server of the test.
func credentials(t *testing.T) (file string) {
	t.Helper()
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"token-of-the-test","token_type":"Bearer","expires_in":3600}`)
	}))
	t.Cleanup(tokens.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "test@example.com", "token_uri": tokens.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func withGoogle(o *config.OpenTelemetry) { o.GoogleCloudADCAuth = true }

// TestGoogle: with application default credentials, exports have a token, which is fetched at the token server, over HTTP
// and over gRPC with TLS. Without credentials, and where a token would be readable for others, the server does not start.
func TestGoogle(t *testing.T) {
	file := credentials(t)
	for _, collector := range []*otlptest.Collector{otlptest.HTTP(t), otlptest.SecureGRPC(t)} {
		t.Run(collector.Protocol, func(t *testing.T) {
			collector.Use(t)
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
			tracer := start(t, withGoogle)
			_, span := tracer.HTTP("/api").Begin(t.Context(), api.MethodInfo, api.MethodInfo.NewRequest(), http.Header{})
			span.End(200, nil, nil)
			if err := tracer.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := collector.Authorization(); len(got) != 1 || got[0] != "Bearer token-of-the-test" {
				t.Errorf("%v", got)
			}
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file+"-missing")
			wantNoStart(t)
		})
	}
	t.Run("gRPC without TLS", func(t *testing.T) {
		collector := otlptest.GRPC(t)
		collector.Use(t)
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
		wantNoStart(t)
		if got := collector.Authorization(); len(got) > 0 {
			t.Errorf("sent %v", got)
		}
	})
}

// wantNoStart wants an error that names the key.
func wantNoStart(t *testing.T) {
	t.Helper()
	tracer, err := newTracer(withGoogle)
	if err == nil {
		err = tracer.Start(t.Context(), "node")
	}
	if err == nil || !strings.HasPrefix(err.Error(), "opentelemetry.google_cloud_adc_auth: ") {
		t.Errorf("%v", err)
	}
}

// TestOff: a tracer that is off traces nothing, and makes no interface values that are not nil.
func TestOff(t *testing.T) {
	var off *telemetry.Tracer
	if off.HTTP("/api") != nil || off.GRPC() != nil || off.Proxies() != nil || off.Consumers() != nil || off.Node(nil) != nil {
		t.Error("something is traced")
	}
	if err := errors.Join(off.Start(t.Context(), "n"), off.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}
