//go:build !race

package grpcapi

import (
	"context"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
	"github.com/gyrohq/gyro/server/internal/api/rights"
)

// quickNode publishes into nothing.
type quickNode struct{ api.Node }

func (quickNode) PublishBatch(context.Context, []gyro.BatchPublication) {}

// TestPublishAllocations holds the budget of a call within grpc-go: the request, what surrounds it, its channel
// and payload, the answer.
func TestPublishAllocations(t *testing.T) {
	guard, err := rights.New(rights.Config{Section: "grpc_api", Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(api.NewExecutor(api.Config{Node: quickNode{}, Channels: apitest.Namespaces()}), Config{Guard: func() *rights.Guard { return guard }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Server.Server.Stop()
	request := mem.BufferSlice{mem.SliceBuffer((&api.PublishRequest{Channel: "chat", Data: []byte(`{"text":"Hello, how are you today?"}`)}).AppendProto(nil))}
	decode := func(v any) error { return codec{}.Unmarshal(request, v) }
	n := testing.AllocsPerRun(1000, func() {
		answer, err := s.serve(context.Background(), api.MethodPublish, decode)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (codec{}).Marshal(answer); err != nil {
			t.Fatal(err)
		}
	})
	if n > 5 {
		t.Errorf("a publish call allocates %v times, want at most 5", n)
	}
}
