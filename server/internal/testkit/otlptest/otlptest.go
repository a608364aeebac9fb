// Package otlptest is a collector of traces by OTLP for tests, over HTTP and gRPC.
package otlptest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/gyrohq/gyro/gyrotest/wait"
)

// Span is a received span.
type Span struct {
	Name              string
	Trace, ID, Parent string // hexadecimal
	Kind              trace.Span_SpanKind
	Attributes        map[string]string
	Failed            bool
	Status            string
	Resource          map[string]string
}

// Collector receives spans. Any goroutine may call its methods.
type Collector struct {
	Endpoint, Protocol string

	certificate string // a file; empty without TLS

	collector.UnimplementedTraceServiceServer
	mu            sync.Mutex
	spans         []Span
	authorization []string
	changed       chan struct{}
}

// HTTP starts a collector that is used by http/protobuf.
func HTTP(t *testing.T) *Collector {
	c := &Collector{Protocol: "http/protobuf", changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(r.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = z
		}
		data, err := io.ReadAll(body)
		var req collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(data, &req)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.take(&req, r.Header.Values("Authorization"))
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c.Endpoint = s.URL
	return c
}

// GRPC starts a collector that is used by gRPC.
func GRPC(t *testing.T) *Collector { return overGRPC(t, "http") }

// SecureGRPC starts a collector that is used by gRPC over TLS.
func SecureGRPC(t *testing.T) *Collector {
	pair := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	defer pair.Close()
	c := overGRPC(t, "https", grpc.Creds(credentials.NewServerTLSFromCert(&pair.TLS.Certificates[0])))
	c.certificate = filepath.Join(t.TempDir(), "collector.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate().Raw}
	if err := os.WriteFile(c.certificate, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func overGRPC(t *testing.T, scheme string, options ...grpc.ServerOption) *Collector {
	c := &Collector{Protocol: "grpc", changed: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	collector.RegisterTraceServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	c.Endpoint = scheme + "://" + l.Addr().String()
	return c
}

// Use sets the variables OTEL_* of the process, so the test cannot be parallel.
func (c *Collector) Use(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.Endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", c.Protocol)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	if c.certificate != "" {
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", c.certificate)
	}
}

// Export implements the service of OTLP.
func (c *Collector) Export(ctx context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.take(req, metadata.ValueFromIncomingContext(ctx, "authorization"))
	return new(collector.ExportTraceServiceResponse), nil
}

func (c *Collector) take(req *collector.ExportTraceServiceRequest, authorization []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.authorization = append(c.authorization, authorization...)
	for _, of := range req.ResourceSpans {
		for _, in := range of.ScopeSpans {
			for _, s := range in.Spans {
				c.spans = append(c.spans, Span{
					Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					Kind: s.Kind, Attributes: attributes(s.Attributes), Resource: attributes(of.Resource.GetAttributes()),
					Failed: s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR, Status: s.Status.GetMessage(),
				})
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Authorization returns the values of the field that came with exports.
func (c *Collector) Authorization() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.authorization
}

// Spans returns all that were received.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Await waits for a span with a name that fits.
func (c *Collector) Await(t *testing.T, name string, fits func(*Span) bool) Span {
	t.Helper()
	late := time.After(wait.Limit)
	for {
		c.mu.Lock()
		changed := c.changed
		for i := range c.spans {
			if s := &c.spans[i]; s.Name == name && (fits == nil || fits(s)) {
				c.mu.Unlock()
				return *s
			}
		}
		got := c.spans
		c.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			t.Fatalf("no span %s among %+v", name, got)
		}
	}
}

func attributes(list []*common.KeyValue) map[string]string {
	m := make(map[string]string, len(list))
	for _, a := range list {
		switch v := a.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = strconv.FormatInt(v.IntValue, 10)
		}
	}
	return m
}
