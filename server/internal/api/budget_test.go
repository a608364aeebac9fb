//go:build !race

package api_test

import (
	"strconv"
	"testing"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

// TestBatchAllocations holds what a batch costs from its body to the answer: per
// command nothing of its own.
func TestBatchAllocations(t *testing.T) {
	e := api.NewExecutor(api.Config{Node: newNode(t), Channels: apitest.Namespaces()})
	const many = 2560
	data := batchBody(many)
	out := make([]byte, 0, len(data))
	run := func() {
		var r api.BatchRequest
		if err := r.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		res, err := e.Batch(t.Context(), &r)
		if err != nil || len(res.Replies) != many {
			t.Fatal(len(res.Replies), err)
		}
		if out, err = res.AppendJSON(out[:0]); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(50, run); n > many/64 {
		t.Errorf("%v allocations for %d commands, want at most %d", n, many, many/64)
	} else {
		t.Logf("%v allocations for %d commands", n, many)
	}
}

// TestPublishAllocations holds what publications cost between the decoded request
// and the engine, with a real node: each its publication, as far as it is not the
// same, and the results.
func TestPublishAllocations(t *testing.T) {
	e := api.NewExecutor(api.Config{Node: newNode(t), Channels: apitest.Namespaces()})
	text := []byte(`{"text":"hello"}`)
	const many = 2560
	channels, commands := make([]string, many), make([]api.Command, many)
	for i := range channels {
		channels[i] = "ch" + strconv.Itoa(i)
		commands[i] = api.Command{Request: &api.PublishRequest{Channel: channels[i], Data: text}}
	}
	for _, test := range []struct {
		what    string
		request api.Request
		budget  float64
	}{
		{"publish", &api.PublishRequest{Channel: "ch", Data: text}, 1},
		{"publish with history", &api.PublishRequest{Channel: "full:ch", Data: text}, 2},
		{"broadcast", &api.BroadcastRequest{Channels: channels, Data: text}, 8},
		{"batch", &api.BatchRequest{Commands: commands}, 4},
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
