package position

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine counts the reads of its streams, which fail as a test wants.
type engine struct {
	broker.Broker
	mu       sync.Mutex
	tops     map[string]uint64
	reads    map[string]int
	ttls     map[string]time.Duration
	batches  []int // sizes
	now, max int   // reads of histories under way
	fail     func(ch string) error
	slow     time.Duration
}

func newEngine() *engine {
	return &engine{tops: make(map[string]uint64), reads: make(map[string]int), ttls: make(map[string]time.Duration)}
}

func (e *engine) Describe() broker.Traits                      { return broker.Traits{} }
func (e *engine) Subscribe(context.Context, ...string) error   { return nil }
func (e *engine) Unsubscribe(context.Context, ...string) error { return nil }

func (e *engine) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	e.mu.Lock()
	e.now++
	e.max = max(e.max, e.now)
	e.ttls[ch] = f.MetaTTL
	e.mu.Unlock()
	wait, cancel := context.WithTimeout(ctx, e.slow)
	<-wait.Done()
	cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now--
	if ctx.Err() != nil {
		return broker.History{}, ctx.Err()
	}
	r := e.read(ch)
	return broker.History{Top: r.Top}, r.Err
}

func (e *engine) read(ch string) broker.PositionResult {
	e.reads[ch]++
	if e.fail != nil {
		if err := e.fail(ch); err != nil {
			return broker.PositionResult{Err: err}
		}
	}
	return broker.PositionResult{Top: channel.StreamPosition{Offset: e.tops[ch], Epoch: "e"}}
}

// total returns the number of reads since the last time, and the most of a channel.
func (e *engine) total() (sum, most int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.reads {
		sum, most = sum+n, max(most, n)
	}
	clear(e.reads)
	return sum, most
}

// batching reads positions in batches.
type batching struct {
	*engine
	local bool
}

func (e *batching) Describe() broker.Traits {
	return broker.Traits{Local: e.local, Positions: e.positions, Health: func() []broker.Health { return []broker.Health{{Delay: e.slow}} }}
}

func (e *batching) positions(_ context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.batches = append(e.batches, len(channels))
	var out []broker.PositionResult
	for _, ch := range channels {
		out = append(out, e.read(ch))
		if metaTTL != 0 {
			e.ttls[ch] = metaTTL
		}
	}
	return out
}

// node is what a checker works for.
type node struct {
	*Checker
	routes *route.Table
	start  time.Time
	mu     sync.Mutex
	posted map[string][]time.Duration // when checks came, by channel
	rounds *hub.Rounds
	latest map[string]*hub.Message
	log    strings.Builder
}

func newNode(t *testing.T, b broker.Broker, delay time.Duration) *node {
	n := &node{routes: route.New(b), start: time.Now(), rounds: new(hub.Rounds)}
	n.posted, n.latest = make(map[string][]time.Duration), make(map[string]*hub.Message)
	n.Checker = New(Config{
		Broker: b, Routes: n.routes, Rounds: n.rounds, Delay: delay,
		Log: slog.New(slog.NewTextHandler(&n.log, nil)),
		Post: func(m *hub.Message) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.posted[m.Channel] = append(n.posted[m.Channel], time.Since(n.start))
			n.latest[m.Channel] = m
		},
	})
	t.Cleanup(n.Close)
	return n
}

// checks returns how many checks came since the last time, and the most of a channel.
func (n *node) checks() (sum, most int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, at := range n.posted {
		sum, most = sum+len(at), max(most, len(at))
	}
	clear(n.posted)
	return sum, most
}

// watch adds subscribers of count channels.
func (n *node) watch(t *testing.T, prefix string, count int, ttl time.Duration) {
	for i := range count {
		ch := fmt.Sprint(prefix, i)
		if _, err := n.routes.Add(t.Context(), ch, 0); err != nil {
			t.Fatal(err)
		}
		n.Watch(ch, ttl)
	}
}

func (n *node) leave(t *testing.T, prefix string, count int) {
	for i := range count {
		if err := n.routes.Remove(t.Context(), fmt.Sprint(prefix, i), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func expect(t *testing.T, what string, sum, most, wantSum, wantMost int) {
	t.Helper()
	if sum != wantSum || most != wantMost {
		t.Errorf("%s: %d, at most %d of a channel; want %d and %d", what, sum, most, wantSum, wantMost)
	}
}

const delay = 40 * time.Second

// pass lets time pass, and everything happen that is due by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func isRunning(c *Checker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running
}

// Every channel is read once per delay, however many subscribe to it, and its check
// follows a second later. The reads are spread. Without channels nothing runs.
func TestEveryChannelOncePerDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const channels = 3000
		e := newEngine()
		n := newNode(t, &batching{engine: e}, delay)
		pass(beat.Until(pace))
		n.watch(t, "ch", channels, 0)
		n.watch(t, "ch", channels, 0)
		if _, err := n.routes.Add(t.Context(), "plain", 0); err != nil {
			t.Fatal(err)
		}
		pass(delay + time.Second)
		sum, most := n.checks()
		expect(t, "checks", sum, most, channels, 1)
		if len(e.batches) < int(delay/pace)-1 || slices.Max(e.batches) > channels/20 {
			t.Errorf("read in batches of %d", e.batches)
		}
		e.total()
		for range 5 {
			pass(delay)
			sum, most = e.total()
			expect(t, "reads", sum, most, channels, 1)
		}
		if e.reads["plain"] > 0 || len(e.ttls) > 0 {
			t.Error("a channel was read that nobody watches, or by itself")
		}
		for range 2 {
			n.leave(t, "ch", channels)
		}
		pass(delay)
		if isRunning(n.Checker) || n.routes.HasChecked() {
			t.Error("the checker runs on without channels")
		}
		e.total()
		n.watch(t, "again", 1, 0)
		pass(10 * delay)
		sum, most = e.total()
		expect(t, "reads of the channel that came later", sum, most, 10, 10)
	})
}

// While more than a batch of channels is due within a pace, each bucket is visited when it is due, so that a node with
// very many channels does not read them in bursts. With fewer it wakes up once per pace.
func TestPace(t *testing.T) {
	for _, c := range []struct{ channels, visits int }{{1_000, int(delay / pace)}, {60_000, route.Buckets}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine()
			n := newNode(t, &batching{engine: e}, delay)
			n.watch(t, "ch", c.channels, 0)
			pass(delay)
			e.total()
			pass(delay)
			sum, most := e.total()
			expect(t, "reads", sum, most, c.channels, 1)
			if visits := len(e.batches); visits < 2*c.visits-10 || visits > 2*c.visits+10 {
				t.Errorf("%d channels were read in %d batches of at most %d within two delays, want about %d",
					c.channels, visits, slices.Max(e.batches), 2*c.visits)
			}
		})
	}
}

// A check tells of the top and of the round, which began before the reading.
func TestCheckTellsTheTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.tops["ch0"] = 7
		var round uint32
		n := newNode(t, e, delay)
		e.fail = func(string) error { round = n.rounds.Now(); return nil }
		n.watch(t, "ch", 1, time.Hour)
		for sum := 0; sum == 0 && time.Since(n.start) < 2*delay; sum, _ = n.checks() {
			pass(time.Second)
		}
		m := n.latest["ch0"]
		if m == nil || m.Kind != hub.KindCheck || m.Pub.Offset != 7 || m.Epoch != "e" || m.Round != round || round == 0 {
			t.Errorf("check %+v, read in round %d", m, round)
		}
		if e.ttls["ch0"] != time.Hour {
			t.Errorf("read with a time to live of %v", e.ttls["ch0"])
		}
	})
}

// How a broker is asked follows from what it can do: always once per channel, with
// the channel's time to live.
func TestWaysToRead(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      func(*engine) broker.Broker
		batched int // channels
		alone   int
		wait    time.Duration
	}{
		{"one by one", func(e *engine) broker.Broker { return e }, 0, 30, time.Second},
		{"batches", func(e *engine) broker.Broker { return &batching{engine: e} }, 30, 0, time.Second},
		{"batches of a slow broker", func(e *engine) broker.Broker { e.slow = 2 * time.Second; return &batching{engine: e} }, 30, 0, 4 * time.Second},
		{"batches of a broker that stands still", func(e *engine) broker.Broker { e.slow = 8 * time.Second; return &batching{engine: e} }, 30, 0, maxGrace},
		{"local", func(e *engine) broker.Broker { return &batching{e, true} }, 30, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine()
				n := newNode(t, c.of(e), -1)
				n.watch(t, "a", 20, 0)
				n.watch(t, "b", 10, time.Hour)
				n.Lost(func(string) bool { return true })
				pass(c.wait - 1)
				if sum, _ := n.checks(); sum > 0 && c.wait > 0 {
					t.Errorf("%d checks before %v", sum, c.wait)
				}
				pass(1)
				if c.wait > 0 {
					sum, most := n.checks()
					expect(t, "checks", sum, most, 30, 1)
				}
				batched := 0
				for _, size := range e.batches {
					batched += size
				}
				if sum, _ := e.total(); batched != c.batched || sum-batched != c.alone || e.max > readers {
					t.Errorf("%d read in batches, %d alone, %d at once", batched, sum-batched, e.max)
				}
				for ch, ttl := range e.ttls {
					if (ttl == time.Hour) != strings.HasPrefix(ch, "b") {
						t.Errorf("%s was read with a time to live of %v", ch, ttl)
					}
				}
			})
		})
	}
}

// After a loss its channels are read at once, in bounded batches; what is told
// meanwhile follows once. It needs no periodic checks.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const channels = 5000
		e := newEngine()
		n := newNode(t, &batching{engine: e}, -1)
		n.watch(t, "a", channels, 0)
		n.watch(t, "b", channels, 0)
		pass(time.Hour)
		if sum, _ := e.total(); sum > 0 || isRunning(n.Checker) {
			t.Errorf("%d reads although there are to be none", sum)
		}
		once := sync.OnceFunc(func() { // while the first ones are read
			e.mu.Unlock()
			defer e.mu.Lock()
			for range 3 * maxLosses {
				n.Lost(func(ch string) bool { return strings.HasPrefix(ch, "a") })
			}
		})
		e.fail = func(string) error { once(); return nil }
		n.Lost(func(ch string) bool { return strings.HasPrefix(ch, "a") })
		pass(time.Second)
		sum, most := e.total()
		// Losses that are too many to be told apart are of all channels.
		expect(t, "reads", sum, most, 3*channels, 2)
		sum, most = n.checks()
		expect(t, "checks", sum, most, 3*channels, 2)
		if got := slices.Max(e.batches); got != batchSize {
			t.Errorf("batches of up to %d, want %d", got, batchSize)
		}
		if isRunning(n.Checker) {
			t.Error("the checker runs on")
		}
	})
}

// What could not be read is checked the next time; after a loss it is read once more,
// soon. Failures are logged, but not each.
func TestReadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		n := newNode(t, e, delay)
		e.fail = func(ch string) error {
			if ch != "ch0" {
				return errors.New("connection refused")
			}
			return nil
		}
		n.watch(t, "ch", 100, 0)
		pass(delay + time.Second)
		sum, most := n.checks()
		expect(t, "checks while it fails", sum, most, 1, 1)
		if lines := strings.Count(n.log.String(), "connection refused"); lines < 2 || lines > 5 {
			t.Errorf("logged %d times:\n%s", lines, n.log.String())
		}
		n.Close()

		e.total()
		n = newNode(t, e, -1)
		n.watch(t, "ch", 100, 0)
		n.Lost(func(string) bool { return true })
		pass(retryDelay - time.Second)
		sum, most = e.total()
		expect(t, "reads at once", sum, most, 100, 1)
		pass(time.Second)
		sum, most = e.total()
		expect(t, "reads of what failed", sum, most, 99, 1)
		pass(time.Hour)
		sum, _ = e.total()
		expect(t, "reads later", sum, 0, 0, 0)
		n.Lost(func(string) bool { return true })
		synctest.Wait()
		e.mu.Lock()
		e.fail = nil
		e.mu.Unlock()
		pass(retryDelay + time.Second)
		if got := len(slices.Collect(maps.Keys(n.posted))); got != 100 {
			t.Errorf("%d channels were checked, want 100", got)
		}
		if isRunning(n.Checker) {
			t.Error("the checker runs on")
		}
	})
}

// A broker that answers too little is an error, and no panic.
type short struct{ *engine }

func (short) Describe() broker.Traits {
	return broker.Traits{Positions: func(context.Context, []string, time.Duration) []broker.PositionResult { return nil }}
}

func TestWrongNumberOfPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, short{newEngine()}, delay)
		n.watch(t, "ch", 1, 0)
		pass(delay)
		n.Close()
		if sum, _ := n.checks(); sum != 0 || !strings.Contains(n.log.String(), "returned 0 positions of 1 channels") {
			t.Errorf("%d checks; log: %s", sum, n.log.String())
		}
	})
}

// Close ends reads that hang, and nothing begins afterwards; a broker that hangs is
// given up after a while.
func TestCloseDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		e.slow = time.Hour
		n := newNode(t, e, -1)
		n.watch(t, "ch", 100, 0)
		start := time.Now()
		n.Lost(func(string) bool { return true })
		pass(readTimeout)
		if !strings.Contains(n.log.String(), context.DeadlineExceeded.Error()) {
			t.Errorf("log: %s", n.log.String())
		}
		pass(retryDelay)
		n.Close()
		if d := time.Since(start); d != readTimeout+retryDelay {
			t.Errorf("Close took until %v", d)
		}
		n.Lost(func(string) bool { t.Error("asked after Close"); return true })
		n.watch(t, "more", 1, 0)
		if isRunning(n.Checker) && n.ctx.Err() == nil {
			t.Error("it runs")
		}
		n.Close()
	})
}

// More times to live than can be told apart: the rest have the broker's default.
func TestManyTimesToLive(t *testing.T) {
	c := New(Config{Broker: newEngine(), Routes: route.New(newEngine())})
	defer c.Close()
	for i := range 300 {
		ttl := time.Duration(i) * time.Minute
		want := uint8(1)
		if i < maxTTLs {
			want = uint8(i + 1)
		}
		for range 2 {
			if got := c.ttl(ttl); got != want {
				t.Fatalf("number %d for %v, want %d", got, ttl, want)
			}
		}
	}
}

// After a time in which nothing ran, such as a suspended machine, every bucket is
// visited once and no more.
func TestLongSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		n := newNode(t, e, delay)
		n.watch(t, "ch", 100, 0)
		r := &runner{Checker: n.Checker}
		r.step, r.nextAt = delay/route.Buckets, time.Now().Add(-time.Hour)
		r.visit()
		sum, most := e.total()
		expect(t, "reads", sum, most, 100, 1)
		if wait := time.Until(r.nextAt); wait <= 0 || wait > r.step {
			t.Errorf("the next bucket is visited in %v", wait)
		}
	})
}

// The cost of checking, but for the engine's.
func BenchmarkCheck(b *testing.B) {
	const channels = 10_000
	e := &batching{newEngine(), true}
	routes := route.New(e)
	posted := 0
	c := New(Config{
		Broker: e, Routes: routes, Rounds: new(hub.Rounds), Delay: -1,
		Log: slog.New(slog.DiscardHandler), Post: func(*hub.Message) { posted++ },
	})
	defer c.Close()
	for i := range channels {
		ch := fmt.Sprint("ch", i)
		if _, err := routes.Add(b.Context(), ch, 0); err != nil {
			b.Fatal(err)
		}
		c.Watch(ch, 0)
	}
	r := &runner{Checker: c}
	r.step, r.nextAt = delay/route.Buckets, time.Now()
	b.ReportAllocs()
	for b.Loop() {
		r.nextAt = time.Now().Add(-time.Hour)
		r.visit()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(posted), "ns/channel")
}
