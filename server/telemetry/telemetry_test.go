package telemetry_test

import (
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
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/consume"
	"github.com/gyrohq/gyro/server/internal/otlptest"
	"github.com/gyrohq/gyro/server/telemetry"
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
	of := tracer.Consumers()(&config.Consumer{Name: "orders", Type: config.TypeKafka})
	m := &consume.Message{ID: "m1", Attributes: []consume.Attribute{
		{Key: "other", Value: "x"}, {Key: "TraceParent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}}
	_, end := of.Begin(t.Context(), m, api.MethodPublish, &api.PublishRequest{Channel: "a", Data: []byte("payload-of-the-test")})
	end(api.ErrUnknownChannel)
	_, end = of.Begin(t.Context(), &consume.Message{ID: "m2"}, api.MethodPublish, &api.PublishRequest{Channel: "b"})
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

// TestGoogle: with application default credentials, exports have a token, which is fetched at the token server; without
// them the server does not start.
func TestGoogle(t *testing.T) {
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
	credentials, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "test@example.com", "token_uri": tokens.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, credentials, 0o600); err != nil {
		t.Fatal(err)
	}
	collector := otlptest.HTTP(t)
	collector.Use(t)
	google := func(o *config.OpenTelemetry) { o.GoogleCloudADCAuth = true }
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	tracer := start(t, google)
	_, span := tracer.HTTP("/api").Begin(t.Context(), api.MethodInfo, api.MethodInfo.NewRequest(), http.Header{})
	span.End(200, nil, nil)
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := collector.Authorization(); len(got) != 1 || got[0] != "Bearer token-of-the-test" {
		t.Errorf("%v", got)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file+"-missing")
	without, err := newTracer(google)
	if err == nil {
		err = without.Start(t.Context(), "node")
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
