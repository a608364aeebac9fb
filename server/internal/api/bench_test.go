package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// newNode returns a node of the memory engine that runs until the test ends.
func newNode(tb testing.TB) api.Node {
	node, err := gyro.New(gyro.Config{Binary: true})
	if err != nil {
		tb.Fatal(err)
	}
	if err := node.Run(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = node.Shutdown(ctx)
	})
	return api.NodeOf(node)
}

// The two great commands, from the body to the answer with an engine of the
// process: all but HTTP. One operation is one publication.
func BenchmarkBatch(b *testing.B) {
	const many = 50_000
	benchmark(b, api.MethodBatch, many, batchBody(many))
}

// batchBody is a batch of publish commands.
func batchBody(many int) []byte {
	var s strings.Builder
	for i := range many {
		fmt.Fprintf(&s, `, {"publish": {"channel": "channel_%d", "data": {"text": "hello, world", "n": 42}}}`, i)
	}
	return []byte(`{"commands": [` + s.String()[1:] + `]}`)
}

func BenchmarkBroadcast(b *testing.B) {
	const many = 100_000
	var s strings.Builder
	for i := range many {
		fmt.Fprintf(&s, `, "channel_%d"`, i)
	}
	benchmark(b, api.MethodBroadcast, many, []byte(`{"channels": [`+s.String()[1:]+`], "data": {"text": "hello, world", "n": 42}}`))
}

func benchmark(b *testing.B, m api.Method, many int, data []byte) {
	e := api.NewExecutor(api.Config{Node: newNode(b), Channels: apitest.Namespaces()})
	out := make([]byte, 0, len(data))
	b.SetBytes(int64(len(data) / many))
	b.ReportAllocs()
	for i := 0; i < b.N; i += many {
		req := m.NewRequest()
		if err := req.UnmarshalJSON(data); err != nil {
			b.Fatal(err)
		}
		res, err := e.Execute(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		if out, err = res.AppendJSON(out[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
