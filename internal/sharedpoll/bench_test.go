package sharedpoll

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
)

// listener is a client that gets frames and does not send them.
type listener struct {
	membership hub.Membership
	got        int
}

func (l *listener) Membership() *hub.Membership      { return &l.membership }
func (l *listener) Deliver(*hub.Delivery)            {}
func (l *listener) DeliverAll(*hub.Batch) bool       { return false }
func (l *listener) Reset()                           {}
func (l *listener) Send(_ *hub.Delivery, _ hub.Form) { l.got++ }

// BenchmarkCycle asks once for 100,000 keys, which 10,000 clients of a loop track, 10 each; one key in a hundred has
// changed. B/key is the memory that a tracked key takes, besides the client itself.
func BenchmarkCycle(b *testing.B) {
	const clients, each, batch = 10_000, 10, 1000
	var mu sync.Mutex
	var inbox []*hub.Message
	var calls, round int
	table := New(Config{
		Loops: 1, Concurrency: 8, Log: slog.New(slog.DiscardHandler), Check: func(string, []byte) (bool, error) { return true, nil },
		Post: func(_ int, m *hub.Message) {
			mu.Lock()
			defer mu.Unlock()
			inbox = append(inbox, m)
		},
	})
	defer table.Close()
	opts := &channel.SharedPoll{Versioned: true, Interval: time.Hour, Poll: func(_ context.Context, _ string, keys []channel.PolledKey) (a channel.PollAnswer, err error) {
		mu.Lock()
		calls++
		now := round
		mu.Unlock()
		for i, k := range keys {
			if k.Version == 0 || now > 0 && (i+now)%100 == 0 {
				a.Values = append(a.Values, channel.KeyValue{Key: k.Key, Data: []byte(`{"price":1.99}`), Version: k.Version + 1})
			}
		}
		return a, nil
	}}
	on := &Loop{Hub: hub.New(new(sendqueue.Arena)), Table: table}
	turn := func() {
		mu.Lock()
		list := inbox
		inbox = nil
		mu.Unlock()
		for _, m := range list {
			on.Hub.Publish(m)
		}
		for on.Hub.Deliver(512) {
		}
	}
	var all []*Keys
	owners := make([]listener, clients)
	var names []string
	for i := range owners {
		all = append(all, NewKeys(on, &owners[i], name, opts))
		for k := range each {
			names = append(names, fmt.Sprintf("article-%d-%d", i, k))
		}
	}
	before := heap()
	for i, k := range all {
		items := &protocol.TrackBatch{}
		for _, key := range names[i*each : (i+1)*each] {
			items.Items = append(items.Items, &protocol.KeyedItem{Key: key})
		}
		var r Result
		if err := k.Take(&protocol.SubRefreshRequest{Type: 1, Track: []*protocol.TrackBatch{items}}, []int64{0}, 0, 1<<20, protocol.JSON, &r); err != nil {
			b.Fatal(err)
		}
	}
	got := func() (n int) {
		for i := range owners {
			n += owners[i].got
		}
		return n
	}
	await := func(want int) {
		for turn(); got() < want; turn() {
			runtime.Gosched()
		}
	}
	await(clients * each)
	perKey := float64(heap()-before) / (clients * each)
	first := calls
	node := table.Find(name)
	calls = 0
	b.ResetTimer()
	for range b.N {
		mu.Lock()
		round++
		mu.Unlock()
		want := got()
		// A notification of all keys has them asked for in batches, as a cycle does.
		for from := 0; from < len(names); from += batch {
			node.Notify(names[from : from+batch])
		}
		await(want + clients*each/100)
	}
	b.ReportMetric(perKey, "B/key")
	b.ReportMetric(float64(first), "first-calls")
	b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
	runtime.KeepAlive(all)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
