//go:build !race

package api_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/api"
	"github.com/gyrohq/gyro/server/api/internal/apitest"
)

// TestPublishAllocations holds what publications cost between the decoded request
// and the engine, with a real node: each its publication, as far as it is not the
// same, and the results.
func TestPublishAllocations(t *testing.T) {
	node, err := gyro.New(gyro.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = node.Shutdown(ctx)
	})
	e := api.NewExecutor(api.Config{Node: node, Channels: apitest.Namespaces()})
	p := api.Publication{Data: []byte(`{"text":"hello"}`)}
	const many = 2560
	channels, commands := make([]string, many), make([]*api.Command, many)
	for i := range channels {
		channels[i] = "ch" + strconv.Itoa(i)
		commands[i] = &api.Command{Request: &api.PublishRequest{Channel: channels[i], Publication: p}}
	}
	for _, test := range []struct {
		what    string
		request api.Request
		budget  float64
	}{
		{"publish", &api.PublishRequest{Channel: "ch", Publication: p}, 2},
		{"publish with history", &api.PublishRequest{Channel: "full:ch", Publication: p}, 2},
		{"broadcast", &api.BroadcastRequest{Channels: channels, Publication: p}, many/256 + 8},
		{"batch", &api.BatchRequest{Commands: commands}, many/256*(256/32+1) + 4},
	} {
		run := func() {
			if _, err := e.Execute(t.Context(), test.request); err != nil {
				t.Fatal(err)
			}
		}
		run() // makes streams
		if got := testing.AllocsPerRun(50, run); got > test.budget {
			t.Errorf("%s: %v allocations, budget %v", test.what, got, test.budget)
		} else {
			t.Logf("%s: %v allocations", test.what, got)
		}
	}
}
