package loop

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/internal/hub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts a loop that the test has to close.
func run() *Loop {
	l := New()
	go l.Run()
	return l
}

// occupy keeps the loop in a task until the function that it returns is called.
func occupy(l *Loop) (release func()) {
	busy, hold := make(chan struct{}), make(chan struct{})
	l.Post(Func(func() { close(busy); <-hold }))
	<-busy
	return func() { close(hold) }
}

// recorder is a subscriber that calls a function.
type recorder struct {
	membership hub.Membership
	f          func(*hub.Delivery)
}

func (s *recorder) Membership() *hub.Membership { return &s.membership }
func (s *recorder) DeliverAll(*hub.Batch) bool  { return false }
func (s *recorder) Deliver(m *hub.Delivery)     { s.f(m) }

// count adds a subscriber in ch that counts what it gets.
func count(l *Loop, ch string) *int {
	n := new(int)
	l.Post(Func(func() { l.Hub().Add(ch, &recorder{f: func(*hub.Delivery) { *n++ }}) }))
	return n
}

type flusher func()

func (f flusher) Flush() { f() }

// A turn is: what was posted, in order; then timers; then output, also that which
// came up while other output was flushed.
func TestTurn(t *testing.T) {
	l := New()
	l.turn(nil)
	var log []string
	note := func(s string) { log = append(log, s) }
	late := flusher(func() { note("flush late") })
	first := flusher(func() { note("flush first"); l.Dirty(late) })
	second := flusher(func() { note("flush second") })
	timed := &timed{f: func() { note("tick"); l.Dirty(second) }}
	l.turn([]item{
		{task: Func(func() { note("a"); l.Dirty(first) })},
		{task: Func(func() { note("b"); l.Schedule(timed, l.Now()-int64(time.Second)) })},
	})
	l.now += wheelTick
	l.turn([]item{{task: Func(func() { note("c") })}})
	want := []string{"a", "b", "flush first", "flush late", "c", "tick", "flush second"}
	if !slices.Equal(log, want) {
		t.Errorf("got %q, want %q", log, want)
	}
	l.turn(nil)
	if len(log) != len(want) {
		t.Errorf("output is flushed again: %q", log[len(want):])
	}
}

// Timers that are due at once, such as the pings of clients that came at once, go off
// in slices: a turn looks after everything else in between, and none is forgotten.
func TestTimersInSlices(t *testing.T) {
	const clients = 50_000
	l := New()
	l.turn(nil)
	fired := 0 // in this turn
	at := l.Now() + int64(time.Second)
	for range clients {
		l.Schedule(&timed{f: func() { fired++ }}, at)
		l.Schedule(&timed{f: func() { t.Error("a timer of a later round goes off") }}, at+wheelSlots*wheelTick)
	}
	delivered, ran := 0, 0
	l.Hub().Add("ch", &recorder{f: func(*hub.Delivery) { delivered++ }})
	l.now = at + wheelTick
	turns, total := 0, 0
	for total < clients || l.busy {
		fired = 0
		l.turn([]item{{task: Func(func() { ran++ })}, {msg: &hub.Message{Channel: "ch"}}})
		turns++
		total += fired
		if fired > ticks {
			t.Fatalf("%d timers go off in a turn, at most %d may", fired, ticks)
		}
		if ran != turns || delivered != turns {
			t.Fatalf("%d tasks and %d deliveries in %d turns", ran, delivered, turns)
		}
		if !l.busy && total < clients {
			t.Fatalf("the loop would sleep after %d timers", total)
		}
	}
	// Those of a later round are looked at, and cost something.
	if most := 2 * (clients + ticks - 1) / ticks; total != clients || turns > most {
		t.Errorf("%d timers in %d turns, want %d in at most %d", total, turns, clients, most)
	}
}

// A turn delivers to few subscribers, so that publishers have their answers soon. It does not
// deliver to fewer still if there are many messages, whose frames every turn makes again.
func TestDeliveriesInSlices(t *testing.T) {
	for messages, want := range map[int]int{1: 128, 16: 64, 32: 86, 64: 103, 640: 103} {
		l := New()
		delivered := 0
		for range 2000 {
			l.Hub().Add("ch", &recorder{f: func(*hub.Delivery) { delivered++ }})
		}
		batch := make([]item, messages)
		for i := range batch {
			batch[i].msg = &hub.Message{Channel: "ch"}
		}
		l.turn(batch)
		// A sweep carries at most 64 messages.
		if got := delivered / min(messages, 64); got != want {
			t.Errorf("%d messages: a turn delivers to %d subscribers, want %d", messages, got, want)
		}
	}
}

type timed struct {
	timer Timer
	f     func()
}

func (t *timed) Timer() *Timer { return &t.timer }
func (t *timed) Tick()         { t.f() }

// What one goroutine posts keeps its order: tasks, and messages of a channel.
func TestOrder(t *testing.T) {
	const producers, posts = 8, 2000
	l := run()
	type entry struct{ producer, n int } // messages count as producers of their own
	var got []entry
	for p := range producers {
		sub := &recorder{f: func(m *hub.Delivery) { got = append(got, entry{producers + p, int(m.ID)}) }}
		l.Post(Func(func() { l.Hub().Add(fmt.Sprint(p), sub) }))
	}
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for n := range posts {
				l.PostMessage(&hub.Message{Channel: fmt.Sprint(p), ID: int64(n)})
				if !l.Post(Func(func() { got = append(got, entry{p, n}) })) {
					t.Error("refused")
				}
			}
		})
	}
	wg.Wait()
	l.Close()
	next := make([]int, 2*producers)
	for _, e := range got {
		if e.n != next[e.producer] {
			t.Fatalf("producer %d: %d comes when %d is due", e.producer, e.n, next[e.producer])
		}
		next[e.producer]++
	}
	if len(got) != 2*producers*posts {
		t.Fatalf("%d entries, want %d", len(got), 2*producers*posts)
	}
}

// Who publishes waits while a loop is behind by maxMessages, however many they
// are; who posts tasks never does. Nothing gets lost.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := run()
		got := count(l, "ch")
		release := occupy(l)
		const publishers, each = 10, maxMessages / 2
		for range publishers {
			go func() {
				for range each {
					l.PostMessage(&hub.Message{Channel: "ch"})
				}
			}()
		}
		synctest.Wait()
		waiting := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.inbox)
		}
		if n := waiting(); n != maxMessages {
			t.Errorf("%d messages wait, want %d", n, maxMessages)
		}
		if !l.Post(Func(func() {})) || waiting() != maxMessages+1 {
			t.Error("a task is held up")
		}
		release()
		synctest.Wait()
		l.Close()
		if want := publishers * each; *got != want {
			t.Errorf("%d messages arrived, want %d", *got, want)
		}
	})
}

// Close lets everything run that was posted before, and nothing after; those who
// wait to publish wait no more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := run()
		got := count(l, "ch")
		release := occupy(l)
		for range maxMessages {
			l.PostMessage(&hub.Message{Channel: "ch"})
		}
		published := make(chan struct{})
		go func() {
			l.PostMessage(&hub.Message{Channel: "ch"})
			close(published)
		}()
		ran, flushed, refused := false, false, false
		l.Post(Func(func() {
			ran = true
			l.Dirty(flusher(func() { flushed = true }))
			refused = !l.Post(Func(func() { t.Error("a task that was posted after Close runs") }))
		}))
		synctest.Wait()
		closed := make(chan struct{})
		go func() { l.Close(); close(closed) }()
		synctest.Wait()
		<-published // although the loop is still busy
		select {
		case <-closed:
			t.Error("Close does not wait")
		default:
		}
		release()
		<-closed
		if !ran || !flushed || !refused {
			t.Errorf("task ran %v, flushed %v, later one refused %v", ran, flushed, refused)
		}
		if *got != maxMessages {
			t.Errorf("%d messages arrived, want %d", *got, maxMessages)
		}
		if l.Post(Func(func() {})) {
			t.Error("a closed loop takes a task")
		}
		l.PostMessage(&hub.Message{Channel: "ch"})
		l.Close()
	})
}

// A loop that sleeps wakes for its timers, no more than a tick late.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := run()
		const n = 100
		fired := 0
		l.Post(Func(func() {
			start := l.Now()
			for i := range n {
				at := start + int64(i*i)*int64(77*time.Millisecond) // up to 12 minutes
				l.Schedule(&timed{f: func() {
					fired++
					if late := l.Now() - at; late < 0 || late > wheelTick {
						t.Errorf("timer %d goes off %v late", i, time.Duration(late))
					}
				}}, at)
			}
		}))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if fired != n {
			t.Errorf("%d timers went off, want %d", fired, n)
		}
		l.Close()
	})
}

// Now is the same all over a turn, and moves between turns.
func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := run()
		var first, second, later int64
		l.Post(Func(func() { first = l.Now(); time.Sleep(time.Second); second = l.Now() }))
		time.Sleep(2 * time.Second)
		l.Post(Func(func() { later = l.Now() }))
		synctest.Wait()
		if first != second || later-first != int64(2*time.Second) {
			t.Errorf("%d, %d, %d", first, second, later)
		}
		l.Close()
	})
}

// A channel with a window holds back its messages until the window ends, to the
// point, or is full. Meanwhile they are no reason for anybody to wait.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 3 * time.Millisecond
		l := run()
		logs := make(map[string][]time.Duration)
		start := time.Now()
		add := func(ch string, w hub.Window) {
			s := &recorder{f: func(*hub.Delivery) { logs[ch] = append(logs[ch], time.Since(start)) }}
			l.Post(Func(func() { l.Hub().Add(ch, s); l.Hub().SetWindow(s, w) }))
		}
		check := func(ch string, want ...time.Duration) {
			l.Post(Func(func() {
				if !slices.Equal(logs[ch], want) {
					t.Errorf("messages of %q came after %v, want %v", ch, logs[ch], want)
				}
				logs[ch] = nil
			}))
			synctest.Wait()
		}
		publish := func(ch string) {
			l.PostMessage(&hub.Message{Channel: ch})
			synctest.Wait()
		}
		add("slow", hub.Window{Delay: delay, Size: 5})
		add("plain", hub.Window{})
		publish("slow")
		publish("plain")
		time.Sleep(time.Millisecond)
		publish("slow")
		time.Sleep(time.Second)
		check("slow", delay, delay)
		check("plain", 0)
		start = time.Now()
		for range 7 {
			publish("slow")
		}
		check("slow", 0, 0, 0, 0, 0)
		l.Close()
		if len(logs["slow"]) != 2 {
			t.Errorf("%d messages came when the loop closed, want 2", len(logs["slow"]))
		}
	})
}

// Publishers do not wait for what is held back, however much it is, and get on
// once it is no more.
func TestWindowBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const channels, each = 2 * maxMessages, 3
		l := run()
		var got atomic.Int32
		l.Post(Func(func() {
			for i := range channels {
				s := &recorder{f: func(*hub.Delivery) { got.Add(1) }}
				l.Hub().Add(fmt.Sprint(i), s)
				l.Hub().SetWindow(s, hub.Window{Delay: time.Minute})
			}
		}))
		start := time.Now()
		for range each {
			for i := range channels {
				l.PostMessage(&hub.Message{Channel: fmt.Sprint(i)})
			}
		}
		synctest.Wait()
		if waited := time.Since(start); waited != 0 || got.Load() != 0 {
			t.Errorf("publishers waited %v, and %d messages were not held", waited, got.Load())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got.Load() != channels*each {
			t.Errorf("%d messages arrived after a minute, want %d", got.Load(), channels*each)
		}
		l.Close()
	})
}
