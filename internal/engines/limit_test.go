package engines

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// engine answers after a while, with what was true at some moment between.
type engine struct {
	broker.Broker
	broker.PresenceManager
	before, after func() time.Duration // until the answer is taken; until it is back
	top           atomic.Uint64
	reads         atomic.Int64
	active, most  atomic.Int64
	fail          error
	panics        bool
}

func (e *engine) Describe() broker.Traits { return broker.Traits{} }

func newEngine(before, after time.Duration) *engine {
	return &engine{before: func() time.Duration { return before }, after: func() time.Duration { return after }}
}

func (e *engine) call(ctx context.Context) error {
	if e.panics {
		panic("engine")
	}
	e.reads.Add(1)
	n := e.active.Add(1)
	defer e.active.Add(-1)
	for most := e.most.Load(); n > most && !e.most.CompareAndSwap(most, n); most = e.most.Load() {
	}
	return sleep(ctx, e.before())
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (e *engine) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	if err := e.call(ctx); err != nil {
		return broker.History{}, err
	}
	h := broker.History{Top: channel.StreamPosition{Offset: e.top.Load()}, Publications: []*channel.Publication{{Data: []byte(ch)}}}
	if f.Since != nil {
		h.Publications[0].Offset = f.Since.Offset
		h.Top.Epoch = f.Since.Epoch
	}
	return h, errors.Join(sleep(ctx, e.after()), e.fail)
}

func (e *engine) Subscribe(ctx context.Context, _ ...string) error { return e.call(ctx) }

func (e *engine) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	err := e.call(ctx)
	return map[string]*channel.ClientInfo{ch: {Client: ch}}, err
}

func (e *engine) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	err := e.call(ctx)
	return broker.PresenceStats{Clients: len(ch)}, err
}

func (e *engine) Add(ctx context.Context, _ string, _ *channel.ClientInfo) error { return e.call(ctx) }

// Identical reads at a time share the next round trip; others do not.
func TestLimitShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(time.Second, time.Second)
		g := limitBroker(e, 0)
		var wg sync.WaitGroup
		results := make([]broker.History, 8000)
		for i := range results {
			wg.Go(func() {
				h, err := g.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1})
				if err != nil {
					t.Error(err)
				}
				results[i] = h
			})
		}
		for i, f := range []broker.HistoryFilter{
			{}, {Reverse: true}, {MetaTTL: 1}, {Since: &channel.StreamPosition{}},
			{Since: &channel.StreamPosition{Offset: 5}}, {Since: &channel.StreamPosition{Offset: 5, Epoch: "e"}},
		} {
			wg.Go(func() {
				h, err := g.History(t.Context(), "ch", f)
				if err != nil {
					t.Error(err)
				}
				if s := f.Since; s != nil && (h.Publications[0].Offset != s.Offset || h.Top.Epoch != s.Epoch) {
					t.Errorf("filter %d was answered for another", i)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		if n := e.reads.Load(); n != 2+6 {
			t.Errorf("%d reads", n)
		}
		if d := time.Since(start); d != 4*time.Second {
			t.Errorf("took %v", d)
		}
		for i := range results {
			results[i].Publications[0] = nil // is the caller's
		}
	})
}

// A reader that comes when a read was sent does not get its answer.
func TestNotStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(0, time.Second) // the answer is taken at once
		g := limitBroker(e, 0)
		read := func(want uint64) {
			h, err := g.History(t.Context(), "ch", broker.HistoryFilter{})
			if err != nil || h.Top.Offset < want {
				t.Errorf("%+v, %v, want at least %d", h.Top, err, want)
			}
		}
		go read(0)
		synctest.Wait()
		e.top.Store(1)
		go read(1)
		time.Sleep(1500 * time.Millisecond) // the second one is under way
		e.top.Store(2)
		read(2)
		if n := e.reads.Load(); n != 3 {
			t.Errorf("%d reads", n)
		}
	})
}

// FuzzFresh: whatever the timing, no answer is older than its question, and each is
// the caller's own.
func FuzzFresh(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint8(3))
	f.Add(uint64(2), uint8(0), uint8(1))
	f.Add(uint64(3), uint8(40), uint8(9))
	f.Fuzz(func(t *testing.T, seed uint64, limit, channels uint8) {
		synctest.Test(t, func(t *testing.T) { testFresh(t, seed, int(limit), 1+int(channels)%10) })
	})
}

func testFresh(t *testing.T, seed uint64, limit, channels int) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	some := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(r.IntN(20)) * time.Millisecond
	}
	e := &engine{before: some, after: some}
	g := limitBroker(e, limit)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			e.top.Add(1)
			_ = sleep(ctx, time.Millisecond)
		}
	}()
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			for range 10 {
				time.Sleep(some())
				ctx := t.Context()
				impatient := i%4 == 0
				if impatient {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, some())
					defer cancel()
				}
				asked := e.top.Load()
				ch := fmt.Sprint(i % channels)
				h, err := g.History(ctx, ch, broker.HistoryFilter{})
				switch {
				case err != nil:
					if !impatient && !errors.Is(err, protocol.ErrorTooManyRequests) {
						t.Errorf("error without a reason: %v", err)
					}
				case h.Top.Offset < asked:
					t.Errorf("answer %d, asked at %d", h.Top.Offset, asked)
				case string(h.Publications[0].Data) != ch:
					t.Errorf("answer for %s, asked for %s", h.Publications[0].Data, ch)
				default:
					h.Publications[0] = nil
				}
			}
		})
	}
	wg.Wait()
	cancel()
	synctest.Wait()
	if limit > 0 && e.most.Load() > int64(limit) {
		t.Errorf("%d calls at a time, limit %d", e.most.Load(), limit)
	}
	if g.slots.used != 0 || g.slots.waiting.Len() != 0 {
		t.Errorf("%d slots are still used, %d callers wait", g.slots.used, g.slots.waiting.Len())
	}
	if len(g.history.next) != 0 {
		t.Errorf("%+v is left", g.history.next)
	}
}

// Who goes away does not take the others along, and nobody's read is not made.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(time.Second, 0)
		g := limitBroker(e, 0)
		read := func(patience time.Duration, want error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := g.History(ctx, "ch", broker.HistoryFilter{}); !errors.Is(err, want) {
				t.Errorf("patience of %v: %v", patience, err)
			}
		}
		go read(500*time.Millisecond, context.DeadlineExceeded) // is back at 500 ms
		synctest.Wait()
		go read(200*time.Millisecond, context.DeadlineExceeded) // shares a read
		synctest.Wait()
		go read(time.Hour, nil)
		time.Sleep(600 * time.Millisecond)
		go read(time.Second, context.DeadlineExceeded) // shares the next, alone
		time.Sleep(time.Hour)
		if n := e.reads.Load(); n != 3 {
			t.Errorf("%d reads", n)
		}

		// The read that is under way ends with its last reader.
		go read(time.Hour, nil)
		synctest.Wait()
		go read(1500*time.Millisecond, context.DeadlineExceeded)
		time.Sleep(1600 * time.Millisecond)
		if n := e.active.Load(); n != 0 {
			t.Errorf("%d reads for nobody", n)
		}
	})
}

// A map that was large for a moment is given up.
func TestManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limitBroker(newEngine(time.Second, 0), 0)
		var wg sync.WaitGroup
		for i := range keepKeys + 1 {
			wg.Go(func() { _, _ = g.History(t.Context(), fmt.Sprint(i), broker.HistoryFilter{}) })
		}
		synctest.Wait()
		g.history.mu.Lock()
		n := len(g.history.next)
		g.history.mu.Unlock()
		if n != keepKeys+1 {
			t.Errorf("%d reads under way", n)
		}
		wg.Wait()
		if n := g.history.most; n != 0 {
			t.Errorf("a map that had %d keys is kept", n)
		}
	})
}

func TestErrorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(time.Second, 0)
		e.fail = protocol.ErrorNotAvailable
		g := limitBroker(e, 0)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := g.History(t.Context(), "ch", broker.HistoryFilter{}); !errors.Is(err, protocol.ErrorNotAvailable) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}

// A panic goes to who called, and blocks nobody else.
func TestPanic(t *testing.T) {
	e := newEngine(0, 0)
	g := limitBroker(e, 1)
	e.panics = true
	func() {
		defer func() { _ = recover() }()
		_, _ = g.History(t.Context(), "ch", broker.HistoryFilter{})
		t.Error("no panic")
	}()
	e.panics = false
	if _, err := g.History(t.Context(), "ch", broker.HistoryFilter{}); err != nil {
		t.Error(err)
	}
}

// Slots are granted in order, and waiting ends.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(time.Second, 0)
		g := limitBroker(e, 2)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				err := g.Subscribe(t.Context(), fmt.Sprint(i))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					order = append(order, i)
				} else if !errors.Is(err, protocol.ErrorTooManyRequests) {
					t.Error(err)
				}
			})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		if len(order) < 20 || len(order) > 22 {
			t.Errorf("%d subscribes in %v", len(order), limitPatience)
		}
		for i := range order {
			if order[i] != i {
				t.Fatalf("order %v", order)
			}
		}
		if n := e.most.Load(); n != 2 {
			t.Errorf("%d at a time", n)
		}
	})
}

// While a read waits for its slot, others may still join it.
func TestJoinBeforeSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(0, time.Second)
		g := limitBroker(e, 1)
		read := func(ch string) { _, _ = g.History(t.Context(), ch, broker.HistoryFilter{}) }
		go read("a")
		synctest.Wait()
		go read("b") // waits for the slot
		synctest.Wait()
		for range 100 {
			go read("b")
		}
		time.Sleep(time.Hour)
		if n := e.reads.Load(); n != 3 {
			t.Errorf("%d reads", n)
		}
	})
}

func TestPresence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(time.Second, 0)
		g := limitPresence(e, 3)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				ch := [...]string{"a", "bb"}[i%2]
				clients, err := g.Presence(t.Context(), ch)
				if err != nil || len(clients) != 1 || clients[ch] == nil {
					t.Errorf("%v, %v", clients, err)
				}
				clear(clients)
				stats, err := g.Stats(t.Context(), ch)
				if err != nil || stats.Clients != len(ch) {
					t.Errorf("%v, %v", stats, err)
				}
				if i < 5 {
					if err := g.Add(t.Context(), ch, nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := e.reads.Load(); n > 5+4*3 {
			t.Errorf("%d calls", n)
		}
		if n := e.most.Load(); n > 3 {
			t.Errorf("%d at a time", n)
		}
	})
}

// still is an engine that costs nothing.
type still struct{ broker.Broker }

func (still) History(context.Context, string, broker.HistoryFilter) (broker.History, error) {
	return broker.History{}, nil
}

func BenchmarkHistory(b *testing.B) {
	g := limitBroker(still{}, 512)
	since := &channel.StreamPosition{Offset: 7, Epoch: "epoch"}
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = g.History(b.Context(), "news:channel_1", broker.HistoryFilter{Since: since, Limit: 100})
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		var n atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			ch := fmt.Sprint("news:channel_", n.Add(1))
			for pb.Next() {
				_, _ = g.History(b.Context(), ch, broker.HistoryFilter{Since: since, Limit: 100})
			}
		})
	})
}
