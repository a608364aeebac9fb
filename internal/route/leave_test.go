package route

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// remote is a broker at a distance: calls take time and fail as a test wants. It
// notes them with the time since it was made.
type remote struct {
	broker.Broker
	start time.Time
	delay time.Duration // set while nothing is called

	mu         sync.Mutex
	fail       map[string]error // by operation
	subscribed map[string]bool
	calls      []string
	biggest    int
	busy, most int // calls of Unsubscribe
}

func newRemote() *remote {
	return &remote{start: time.Now(), fail: make(map[string]error), subscribed: make(map[string]bool)}
}

func (r *remote) Describe() broker.Traits { return broker.Traits{} }

func (r *remote) set(operation string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail[operation] = err
}

func (r *remote) call(ctx context.Context, operation string, channels []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(channels) <= 2 {
		slices.Sort(channels)
		r.calls = append(r.calls, fmt.Sprintf("%v %s %s", time.Since(r.start), operation, strings.Join(channels, ",")))
	}
	for _, ch := range channels {
		if operation == "subscribe" {
			r.subscribed[ch] = true
		} else {
			delete(r.subscribed, ch)
		}
	}
	return errors.Join(r.fail[operation], ctx.Err())
}

func (r *remote) Subscribe(ctx context.Context, channels ...string) error {
	err := r.call(ctx, "subscribe", channels)
	time.Sleep(r.delay)
	return err
}

func (r *remote) Unsubscribe(ctx context.Context, channels ...string) error {
	r.mu.Lock()
	r.biggest = max(r.biggest, len(channels))
	r.busy++
	r.most = max(r.most, r.busy)
	r.mu.Unlock()
	time.Sleep(r.delay)
	err := r.call(ctx, "unsubscribe", channels)
	r.mu.Lock()
	r.busy--
	r.mu.Unlock()
	return err
}

func (r *remote) want(t *testing.T, calls ...string) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.calls, calls) {
		t.Errorf("the broker was called:\n%s\nwant:\n%s", strings.Join(r.calls, "\n"), strings.Join(calls, "\n"))
	}
	r.calls = nil
}

// add and remove are for channels whose operations succeed.
func add(t *testing.T, table *Table, ch string) {
	t.Helper()
	if _, err := table.Add(t.Context(), ch, 0); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, table *Table, ch string) {
	t.Helper()
	if err := table.Remove(t.Context(), ch, 0); err != nil {
		t.Fatal(err)
	}
}

func TestLeaveLaterAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		table := New(r)
		defer table.Close()
		for _, ch := range []string{"a", "b", "c"} {
			add(t, table, ch)
		}
		r.want(t, "0s subscribe a", "0s subscribe b", "0s subscribe c")
		remove(t, table, "a")
		remove(t, table, "b")
		if table.Size() != 1 || table.Find("a").Loops() != 0 || len(all(table)) != 1 {
			t.Errorf("%d channels", table.Size())
		}
		time.Sleep(999 * time.Millisecond)
		r.want(t)
		time.Sleep(time.Millisecond)
		r.want(t, "1s unsubscribe a,b")
		if table.Find("a") != nil || table.Find("b") != nil {
			t.Error("routes are left")
		}
		remove(t, table, "c")
		time.Sleep(time.Minute)
		r.want(t, "2s unsubscribe c")
	})
}

func TestComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		table := New(r)
		defer table.Close()
		add(t, table, "a")
		id := table.Find("a").ID()
		remove(t, table, "a")
		time.Sleep(600 * time.Millisecond)
		add(t, table, "a") // costs nothing
		if got := table.Find("a").ID(); got != id {
			t.Errorf("the channel's ID was %d and is %d", id, got)
		}
		time.Sleep(time.Minute)
		r.want(t, "0s subscribe a")

		remove(t, table, "a") // 1m0.6s
		time.Sleep(600 * time.Millisecond)
		add(t, table, "a")
		remove(t, table, "a") // 1m1.2s
		time.Sleep(time.Minute)
		r.want(t, "1m2.6s unsubscribe a") // at least a second later
		add(t, table, "a")
		r.want(t, "2m1.2s subscribe a")
	})
}

func TestLeaveUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		table := New(r)
		defer table.Close()
		add(t, table, "a")
		add(t, table, "b")
		r.set("unsubscribe", errFake)
		remove(t, table, "a")
		remove(t, table, "b")
		time.Sleep(1900 * time.Millisecond)
		r.want(t, "0s subscribe a", "0s subscribe b", "1s unsubscribe a,b", "1.5s unsubscribe a,b")
		add(t, table, "b") // after a failure it is open whether the broker is subscribed
		r.set("unsubscribe", nil)
		time.Sleep(time.Minute)
		r.want(t, "1.9s subscribe b", "2s unsubscribe a")
		if got := all(table); !slices.Equal(got, []string{"b"}) || !r.subscribed["b"] || table.Find("a") != nil {
			t.Errorf("channels %v, subscribed %v", got, r.subscribed)
		}
	})
}

func TestLeaveAfterFailedSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		table := New(r)
		defer table.Close()
		r.set("subscribe", errFake)
		if _, err := table.Add(t.Context(), "a", 0); !errors.Is(err, errFake) {
			t.Error(err)
		}
		if table.Size() != 0 {
			t.Error("the channel counts")
		}
		time.Sleep(time.Minute)
		r.want(t, "0s subscribe a", "1s unsubscribe a")
		if table.Find("a") != nil {
			t.Error("the route is left")
		}
	})
}

// Who comes back while the broker is being left waits, and is subscribed then.
func TestComeBackMeanwhile(t *testing.T) {
	b := &slow{remote: newRemote(), entered: make(chan struct{}), release: make(chan struct{})}
	table := New(b)
	defer table.Close()
	add(t, table, "a")
	remove(t, table, "a")
	l := table.leaver
	l.mu.Lock()
	batch := l.queue
	l.queue = nil // it is not waited for
	l.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { l.leave(batch) })
	<-b.entered
	wg.Go(func() { add(t, table, "a") })
	close(b.release)
	wg.Wait()
	if r := table.Find("a"); r == nil || !r.subscribed || r.departure != staying || !b.subscribed["a"] {
		t.Errorf("the route is %+v", r)
	}
}

// slow is a remote whose Unsubscribe waits.
type slow struct {
	*remote
	entered, release chan struct{}
}

func (s *slow) Unsubscribe(ctx context.Context, channels ...string) error {
	close(s.entered)
	<-s.release
	return s.remote.Unsubscribe(ctx, channels...)
}

// Somebody who is about to come back holds the channel's lock: others are left
// nevertheless, and this channel is looked at again.
func TestLeavePastALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		table := New(r)
		defer table.Close()
		add(t, table, "a")
		add(t, table, "b")
		remove(t, table, "a")
		remove(t, table, "b")
		a := table.Find("a")
		if !a.mu.tryLock() {
			t.Fatal("the channel is locked")
		}
		time.Sleep(1100 * time.Millisecond)
		a.mu.unlock()
		time.Sleep(time.Minute)
		r.want(t, "0s subscribe a", "0s subscribe b", "1s unsubscribe b", "2s unsubscribe a")
	})
}

// A client that has gone does not wait for the broker's answer to another one.
func TestWaitNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		r.delay = time.Minute
		table := New(r)
		defer table.Close()
		var first sync.WaitGroup
		first.Go(func() { add(t, table, "a") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := table.Add(ctx, "a", 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		first.Wait()
		if n := table.Size(); n != 1 {
			t.Errorf("%d channels", n)
		}
		r.delay = 0
		remove(t, table, "a")
		time.Sleep(time.Minute)
		if table.Find("a") != nil {
			t.Error("the route is still there")
		}
	})
}

func TestCloseWhileLeaving(t *testing.T) {
	for _, when := range []time.Duration{0, 1050 * time.Millisecond, 1300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newRemote()
			table := New(r)
			add(t, table, "a")
			r.delay = 100 * time.Millisecond
			r.set("unsubscribe", errFake)
			remove(t, table, "a")
			time.Sleep(when)
			table.Close()
			add(t, table, "b") // nobody does so; nothing is left running either
			remove(t, table, "b")
			table.Close()
		})
	}
}

// Many channels are left in few calls, and subscribed to side by side.
func TestManyAtOnce(t *testing.T) {
	const channels = 6_000
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		table := New(r)
		defer table.Close()
		r.delay = 50 * time.Millisecond
		each := func(f func(ch string)) {
			var wg sync.WaitGroup
			for i := range channels {
				wg.Go(func() { f(fmt.Sprint("ch", i)) })
			}
			wg.Wait()
		}
		start := time.Now()
		each(func(ch string) { add(t, table, ch) })
		if took := time.Since(start); took != r.delay {
			t.Errorf("subscribing took %v", took)
		}
		if n := len(all(table)); n != channels || table.Size() != channels {
			t.Errorf("%d channels, %d listed", table.Size(), n)
		}
		r.mu.Lock()
		r.calls = nil
		r.mu.Unlock()
		each(func(ch string) { remove(t, table, ch) })
		time.Sleep(leaveDelay + channels/leaveBatch/leavers*r.delay + time.Second)
		synctest.Wait()
		if len(r.subscribed) != 0 || r.biggest != leaveBatch || r.most > leavers {
			t.Errorf("%d left, at most %d at once by %d calls", len(r.subscribed), r.biggest, r.most)
		}
		for i := range table.buckets {
			if n := table.buckets[i].m.Len(); n != 0 {
				t.Fatalf("%d routes left", n)
			}
		}
	})
}

// Whatever comes and goes, and fails: who is added is subscribed, and in the end
// nothing is left.
func TestLeaveConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRemote()
		table := New(f)
		defer table.Close()
		var wg sync.WaitGroup
		for worker := range 8 {
			r := rand.New(rand.NewPCG(2, uint64(worker)))
			wg.Go(func() {
				for range 300 {
					switch r.IntN(10) {
					case 0:
						f.set("unsubscribe", errFake)
					case 1:
						f.set("subscribe", errFake)
					default:
						f.set("unsubscribe", nil)
						f.set("subscribe", nil)
					}
					ch := fmt.Sprint("ch", r.IntN(6))
					if _, err := table.Add(t.Context(), ch, worker); err != nil {
						continue
					}
					time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
					f.mu.Lock()
					if !f.subscribed[ch] {
						t.Errorf("%s is not subscribed", ch)
					}
					f.mu.Unlock()
					_ = table.Remove(t.Context(), ch, worker)
					time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
				}
			})
		}
		wg.Wait()
		f.set("unsubscribe", nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if table.Size() != 0 || len(all(table)) != 0 || len(f.subscribed) != 0 {
			t.Errorf("%d channels, %v subscribed", table.Size(), f.subscribed)
		}
		for ch := range 6 {
			if table.Find(fmt.Sprint("ch", ch)) != nil {
				t.Errorf("the route of ch%d is left", ch)
			}
		}
	})
}
