package route

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro/broker"
)

// absent is a broker that costs nothing.
type absent struct{ broker.Broker }

func (absent) Describe() broker.Traits                      { return broker.Traits{} }
func (absent) Subscribe(context.Context, ...string) error   { return nil }
func (absent) Unsubscribe(context.Context, ...string) error { return nil }

// Coming and going: the client is back before the channel is left.
func BenchmarkAddRemove(b *testing.B) {
	table := New(absent{})
	defer table.Close()
	var workers atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		ctx := context.Background()
		ch := fmt.Sprint("channel:", workers.Add(1))
		for p.Next() {
			if _, err := table.Add(ctx, ch, 0); err != nil {
				b.Error(err)
			}
			_ = table.Remove(ctx, ch, 0)
		}
	})
}

// A channel of its own for each client, left for good.
func BenchmarkLeave(b *testing.B) {
	table := New(absent{})
	ctx := context.Background()
	names := make([]string, 100_000)
	for i := range names {
		names[i] = fmt.Sprint("channel:", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, ch := range names {
			if _, err := table.Add(ctx, ch, 0); err != nil {
				b.Error(err)
			}
			_ = table.Remove(ctx, ch, 0)
		}
		for { // at once
			table.leaver.mu.Lock()
			batch := append([]departure(nil), table.leaver.queue[:min(leaveBatch, len(table.leaver.queue))]...)
			table.leaver.queue = table.leaver.queue[len(batch):]
			table.leaver.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			table.leaver.leave(batch)
		}
	}
	b.StopTimer()
	table.Close()
	if n := len(all(table)); n != 0 {
		b.Errorf("%d are left", n)
	}
}
