package redis

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// TestReceiversMarkApart: some receivers of a shard write their marks more often than others, because
// they connected again, or because a canary was late. Nothing seems to have gone back.
func TestReceiversMarkApart(t *testing.T) {
	t.Parallel()
	c := redistest.NewCluster(t, redistest.Options{})
	for _, partitions := range []int{0, 4} {
		engine, err := New(Config{
			Shards:                  []Shard{{Addresses: c.Addresses(), Mode: Cluster}},
			ShardedPubSubPartitions: partitions, Prefix: fmt.Sprint("p", partitions),
			CanaryInterval: time.Hour, CanaryTimeout: 2 * time.Hour, // only the test writes marks
			StartTimeout: wait.Limit, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		b := engine.broker
		if err := b.Run(&witness{make(chan broker.PublicationEvent, 100), make(chan func(string) bool, 100)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		for round := range 10 {
			for i, r := range b.receivers[0] {
				want := losses.Finding{Written: partitions == 0 || r.partition >= 0}
				for range 1 + (round+i)%3 {
					if f := r.marks.Write(t.Context(), r.shard.client); f != want {
						t.Errorf("%d partitions, receiver %d, round %d: %+v, want %+v", partitions, i, round, f, want)
					}
				}
			}
		}
	}
}
