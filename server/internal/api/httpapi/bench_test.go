package httpapi_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/httpapi"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// quickNode publishes into nothing.
type quickNode struct{ api.Node }

func (quickNode) PublishBatch(context.Context, []gyro.BatchPublication) {}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// publisher returns a function that handles one publish request, without what
// net/http does around it.
func publisher(tb testing.TB) func() {
	exec := api.NewExecutor(api.Config{Node: quickNode{}, Channels: apitest.Namespaces()})
	h, err := httpapi.New(exec, httpapi.Config{Prefix: "/api", Guard: byKey("secret")})
	if err != nil {
		tb.Fatal(err)
	}
	body := bytes.NewReader([]byte(`{"channel":"chat","data":{"user":"42","text":"Hello, how are you today?","ts":1700000000}}`))
	r := httptest.NewRequest(http.MethodPost, "/api/publish", nil)
	r.Header.Set("X-API-Key", "secret")
	r.Body, r.ContentLength = io.NopCloser(body), body.Size()
	w := &discard{header: make(http.Header)}
	return func() {
		_, _ = body.Seek(0, io.SeekStart)
		h.ServeHTTP(w, r)
	}
}

func BenchmarkPublish(b *testing.B) {
	run := publisher(b)
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
