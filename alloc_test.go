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
	"github.com/gyrohq/gyro/observe"
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

// undisturbed has a node do nothing by itself for its clients, which would count as what a test does: the slower the
// machine, the more of it.
func undisturbed(cfg gyro.Config) gyro.Config {
	cfg.PingInterval, cfg.PresenceUpdateInterval, cfg.PositionCheckDelay = -1, time.Hour, time.Hour
	return cfg
}

// allocations is testing.AllocsPerRun, some times if the result is above the budget: on a busy machine loops run when
// others have published and written more than usual, and the first times they have to make room for that.
func allocations(budget float64, runs int, f func()) (got float64) {
	for range 5 {
		if got = testing.AllocsPerRun(runs, f); got <= budget {
			break
		}
	}
	return got
}

// audience subscribes n connections to a channel, and returns a function that
// publishes and waits until all have got it.
func audience(tb testing.TB, n int, by observe.Observer, o *gyro.PublishOptions) (publish func()) {
	node := run(tb, undisturbed(gyro.Config{Observer: by, Handlers: everything(gyro.SubscribeOptions{Positioned: true}, gyro.PublishOptions{})}))
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
		if _, err := node.Publish(context.Background(), "ch", data, o); err != nil {
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
		for name, o := range map[string]*gyro.PublishOptions{
			"plain":   nil,
			"history": keep(10, time.Hour),
		} {
			if got := allocations(budget, 200, audience(t, n, observe.Observer{}, o)); got > budget {
				t.Errorf("%s to %d subscribers: %v allocations, budget %d", name, n, got, budget)
			} else {
				t.Logf("%s to %d subscribers: %v allocations", name, n, got)
			}
		}
	}
}

// idle is an observer that does nothing with what it is told.
var idle = observe.Observer{Turn: func(*observe.Turn) {}, Totals: new(observe.Totals)}

// caller connects a client, and returns a function that has a command answered.
func caller(tb testing.TB, o observe.Observer, command string) (call func()) {
	node := run(tb, undisturbed(gyro.Config{Observer: o, Handlers: everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})}))
	writes := new(atomic.Int64)
	peer, err := node.Accept(context.Background(), &sink{writes}, transport.Info{Name: "sink", Framer: wstest.Framer(protocol.JSON)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { peer.Closed(nil) })
	do := func(msg []byte) {
		writes.Store(0)
		peer.Receive(msg)
		for writes.Load() == 0 {
			runtime.Gosched()
		}
	}
	do([]byte(`{"id":1,"connect":{}}`))
	msg := []byte(`{"id":2,` + command + `}`)
	return func() { do(msg) }
}

// One command is answered on the loop, and one beside it.
var loopCommand, laneCommand = `"unsubscribe":{"channel":"ch"}`, `"rpc":{"method":"m"}`

// To observe commands and deliveries allocates nothing.
func TestObserverAllocations(t *testing.T) {
	for _, command := range []string{loopCommand, laneCommand} {
		bare := testing.AllocsPerRun(1000, caller(t, observe.Observer{}, command))
		if got := allocations(bare, 1000, caller(t, idle, command)); got > bare {
			t.Errorf("%s: %v allocations, without observer %v", command, got, bare)
		}
	}
	bare := testing.AllocsPerRun(200, audience(t, 100, observe.Observer{}, nil))
	if got := allocations(bare, 200, audience(t, 100, idle, nil)); got > bare {
		t.Errorf("publish: %v allocations, without observer %v", got, bare)
	}
}

func benchmarkObserver(b *testing.B, prepare func(b *testing.B, o observe.Observer) func()) {
	for _, is := range []struct {
		name     string
		observer observe.Observer
	}{{"bare", observe.Observer{}}, {"observed", idle}} {
		b.Run(is.name, func(b *testing.B) {
			do := prepare(b, is.observer)
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

func BenchmarkPublish1(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return audience(b, 1, o, nil) })
}

func BenchmarkPublish1000(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return audience(b, 1000, o, nil) })
}

func BenchmarkLoopCommand(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return caller(b, o, loopCommand) })
}

func BenchmarkLaneCommand(b *testing.B) {
	benchmarkObserver(b, func(b *testing.B, o observe.Observer) func() { return caller(b, o, laneCommand) })
}
