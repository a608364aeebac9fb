//go:build !race

package costs

import (
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
)

// TestPublishBatchAllocBudget holds what the way from a request to the engine
// costs: one publication each where there is a history, else none, as the memory
// engine says at once that nobody wants it.
func TestPublishBatchAllocBudget(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{})
	data := []byte(`{"text":"hello, world"}`)
	for _, test := range []struct {
		what   string
		n      int
		opts   func() *gyro.PublishOptions
		budget float64
	}{
		{"one", 1, func() *gyro.PublishOptions { return nil }, 0},
		{"the same into many channels", 1024, func() *gyro.PublishOptions { return nil }, 0},
		{"with history", 256, func() *gyro.PublishOptions { return &gyro.PublishOptions{HistorySize: 1, HistoryTTL: time.Hour} }, 256},
		{"with options of their own", 256, func() *gyro.PublishOptions { return new(gyro.PublishOptions) }, 0},
	} {
		batch := make([]gyro.BatchPublication, test.n)
		for i := range batch {
			batch[i] = gyro.BatchPublication{Channel: fmt.Sprint("ch", i), Data: data, Options: test.opts()}
		}
		publish := func() { node.PublishBatch(t.Context(), batch) }
		publish() // makes streams
		if got := allocations(test.budget, 100, publish); got > test.budget {
			t.Errorf("%s: %v allocations, budget %v", test.what, got, test.budget)
		}
	}
}
