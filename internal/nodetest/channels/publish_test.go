package channels

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/protocol"
)

// A batch is what its elements are one by one, whatever the engine can do.
func TestPublishBatch(t *testing.T) {
	for name, engine := range map[string]broker.Broker{
		"batches": memory.New(memory.Config{}),
		"plain":   nodetest.Plain(memory.New(memory.Config{})),
	} {
		t.Run(name, func(t *testing.T) {
			node := nodetest.Run(t, gyro.Config{
				Broker: engine, Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}),
			})
			c := nodetest.Connect(t, node, "a")
			c.Subscribe("1", "")
			stored := &gyro.PublishOptions{HistorySize: 1000, HistoryTTL: time.Minute}
			batch := make([]gyro.BatchPublication, 1000)
			for i := range batch {
				batch[i] = gyro.BatchPublication{Channel: fmt.Sprint(i % 3), Data: fmt.Append(nil, i), Options: stored}
			}
			batch[4].Channel, batch[7].Options = "", nil
			node.PublishBatch(t.Context(), batch)

			offset := uint64(0)
			for i, p := range batch {
				switch {
				case i == 4:
					if !errors.Is(p.Err, protocol.ErrorBadRequest) {
						t.Errorf("no channel: %v", p.Err)
					}
				case p.Err != nil, i == 7 && p.Result.Position.Offset != 0:
					t.Fatalf("element %d: %+v, %v", i, p.Result, p.Err)
				case i%3 == 1:
					if i != 7 {
						offset++
					}
					if got := c.Pub(); string(got.Data) != fmt.Sprint(i) || i != 7 && got.Offset != offset || i == 7 && got.Offset != 0 {
						t.Fatalf("element %d came as %s with offset %d", i, got.Data, got.Offset)
					}
				}
			}
		})
	}
}

// Publications that are not remembered share one, those that are do not.
func TestBroadcastOverManyChannels(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	c := nodetest.Connect(t, node, "a")
	names := make([]string, 700)
	for i := range names {
		names[i] = fmt.Sprint("ch", i)
	}
	c.Subscribe(names[0], "")
	c.Subscribe(names[699], "")
	for round := range 3 {
		o := nodetest.Keep(10, time.Minute)
		if round == 1 {
			o = nil
		}
		for i, r := range node.Broadcast(t.Context(), names, []byte(`{}`), o) {
			if want := []uint64{1, 0, 2}[round]; r.Err != nil || r.Position.Offset != want {
				t.Fatalf("round %d, %s: %+v", round, names[i], r)
			}
		}
		for range 2 {
			if got, want := c.Pub().Offset, []uint64{1, 0, 2}[round]; got != want {
				t.Errorf("round %d came with offset %d", round, got)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i, r := range node.Broadcast(ctx, names, []byte(`{}`), nil) {
		if !errors.Is(r.Err, context.Canceled) {
			t.Fatalf("%s: %+v", names[i], r)
		}
	}
}
