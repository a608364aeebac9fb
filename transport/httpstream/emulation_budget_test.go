//go:build !race

package httpstream_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
)

// deaf drops all commands.
type deaf struct{}

func (deaf) Emulate(context.Context, string, string, []byte) error { return nil }

// TestEmulationAllocations holds the budget of the route, besides what the node does: the names of
// the node and the session, and the commands.
func TestEmulationAllocations(t *testing.T) {
	route := httpstream.NewEmulation(deaf{}, httpstream.EmulationConfig{}).Route("/emulation")
	req := protocol.EmulationRequest{
		Node: "5f0e2a0c-7f4b-4a56-9d4d-0c5f2f0a9b11", Session: "9d2c1d52-61b4-4d3c-8a59-5e7b0a4f3c22", Data: []byte(`"{\"id\":2,\"rpc\":{}}"`),
	}
	asJSON, err := req.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	for contentType, body := range map[string][]byte{"application/json": asJSON, "application/octet-stream": req.AppendProto(nil)} {
		q := front.FromHTTP(&http.Request{Method: http.MethodPost, URL: endpointURL, Header: http.Header{"Content-Type": {contentType}}})
		if n := testing.AllocsPerRun(1000, func() {
			if status, _ := route.Answer(t.Context(), q, nil, body, nil); status != http.StatusNoContent {
				t.Fatal(status)
			}
		}); n > 4 {
			t.Errorf("%s: a request allocates %v times, want at most 4", contentType, n)
		}
	}
}

// TestEmulationMemory: a body takes the memory of what has arrived, not of what the client says.
func TestEmulationMemory(t *testing.T) {
	h := httpstream.NewEmulation(deaf{}, httpstream.EmulationConfig{MaxRequestBodySize: 1 << 20})
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, &http.Request{
				Method: http.MethodPost, URL: endpointURL, ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header),
				ContentLength: 1 << 20, Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"node":"`), iotest.ErrReader(io.ErrUnexpectedEOF))),
			})
			if w.Code != 499 {
				b.Fatal(w.Code)
			}
		}
	})
	if n := result.AllocedBytesPerOp(); n == 0 || n > 8<<10 {
		t.Errorf("a body of which 9 bytes come takes %d bytes", n)
	}
}
