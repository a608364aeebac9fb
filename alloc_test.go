//go:build !race

package gyro_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// sink is a connection that takes everything at once.
type sink struct{ writes *atomic.Int64 }

func (s *sink) Write(frames [][]byte) (n int, err error) {
	for _, f := range frames {
		n += len(f)
	}
	s.writes.Add(1)
	return n, nil
}
func (s *sink) Close(protocol.Disconnect, [][]byte) {}
func (s *sink) Pause(bool)                          {}

// audience subscribes n connections to a channel, and returns a function that
// publishes and waits until all have got it.
func audience(tb testing.TB, n int, opts ...gyro.PublishOption) (publish func()) {
	node := run(tb, gyro.Config{Handlers: everything(gyro.SubscribeOptions{Positioned: true}, gyro.PublishOptions{})})
	writes := new(atomic.Int64)
	arrived := func(want int64) {
		for writes.Load() < want {
			runtime.Gosched()
		}
		writes.Store(0)
	}
	for range n {
		peer, err := node.Accept(context.Background(), &sink{writes}, transport.Info{Name: "sink", Framer: wstest.Framer(protocol.JSON)})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { peer.Closed(nil) })
		peer.Receive([]byte(`{"id":1,"connect":{}}`))
		arrived(1)
		peer.Receive([]byte(`{"id":2,"subscribe":{"channel":"ch"}}`))
		arrived(1)
	}
	data := []byte(`{"text":"hello, world"}`)
	return func() {
		if _, err := node.Publish(context.Background(), "ch", data, opts...); err != nil {
			tb.Fatal(err)
		}
		arrived(int64(n))
	}
}

// What a publication costs does not depend on the number of its subscribers: there
// is the publication. The message that goes round is used again.
func TestPublishAllocBudget(t *testing.T) {
	const budget = 1
	for _, n := range []int{1, 100, 1000} {
		for name, opts := range map[string][]gyro.PublishOption{
			"plain":   nil,
			"history": {gyro.WithHistory(10, time.Hour)},
		} {
			if got := testing.AllocsPerRun(200, audience(t, n, opts...)); got > budget {
				t.Errorf("%s to %d subscribers: %v allocations, budget %d", name, n, got, budget)
			} else {
				t.Logf("%s to %d subscribers: %v allocations", name, n, got)
			}
		}
	}
}

func BenchmarkPublish1000(b *testing.B) {
	publish := audience(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		publish()
	}
}
