package mapcache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

// counted is a broker in memory that counts the reads of maps, holds back events and fails, as a test wants.
type counted struct {
	*memory.Broker
	handler broker.EventHandler

	mu     sync.Mutex
	states int           // calls of State
	gate   chan struct{} // if not nil, State waits until it is closed
	fail   error         // of State
	copied channel.State // if it has a top, State and History read from this copy
	after  func()        // called once, behind the next History
	hold   bool          // keep events back, and losses secret
	held   []func()
}

func (c *counted) Run(h broker.EventHandler) error {
	c.handler = h
	return c.Broker.Run(c)
}

func (c *counted) Describe() broker.Traits {
	t := c.Broker.Describe()
	t.Maps = countedMaps{t.Maps, c}
	return t
}

func (c *counted) HandlePublication(ch string, e broker.PublicationEvent) {
	c.mu.Lock()
	if c.hold {
		c.held = append(c.held, func() { c.handler.HandlePublication(ch, e) })
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.handler.HandlePublication(ch, e)
}

func (c *counted) HandleJoin(string, *channel.ClientInfo)  {}
func (c *counted) HandleLeave(string, *channel.ClientInfo) {}

func (c *counted) HandleLoss(match func(string) bool) {
	c.mu.Lock()
	secret := c.hold
	c.mu.Unlock()
	if !secret {
		c.handler.HandleLoss(match)
	}
}

func (c *counted) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// release delivers what was kept back, from the one with the index from on.
func (c *counted) release(from int) {
	c.mu.Lock()
	held := c.held[from:]
	c.held, c.hold = nil, false
	c.mu.Unlock()
	for _, deliver := range held {
		deliver()
	}
}

type countedMaps struct {
	broker.Maps
	c *counted
}

func (m countedMaps) State(ctx context.Context, ch string, f channel.StateFilter) (channel.State, error) {
	m.c.mu.Lock()
	m.c.states++
	gate, fail, copied := m.c.gate, m.c.fail, m.c.copied
	m.c.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return channel.State{}, ctx.Err()
		}
	}
	if fail != nil {
		return channel.State{}, fail
	}
	if copied.Top.Offset > 0 {
		return copied, nil
	}
	return m.Maps.State(ctx, ch, f)
}

func (c *counted) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	h, err := c.Broker.History(ctx, ch, f)
	c.mu.Lock()
	after, copied := c.after, c.copied
	c.after = nil
	c.mu.Unlock()
	if copied.Top.Offset > 0 {
		return broker.History{Top: copied.Top}, nil
	}
	if after != nil {
		after()
	}
	return h, err
}

type nobody struct{}

func (nobody) HandlePublication(string, broker.PublicationEvent) {}
func (nobody) HandleJoin(string, *channel.ClientInfo)            {}
func (nobody) HandleLeave(string, *channel.ClientInfo)           {}
func (nobody) HandleLoss(func(string) bool)                      {}

// fixture is a cache around a counted broker, subscribed to the channel "ch".
type fixture struct {
	testing.TB
	inner *counted
	cache broker.Broker
	lines *bytes.Buffer
}

func newFixture(t testing.TB, cfg mapcache.Config) *fixture {
	f := &fixture{TB: t, inner: &counted{Broker: memory.New(memory.Config{})}, lines: &bytes.Buffer{}}
	if cfg.SyncInterval == 0 {
		cfg.SyncInterval = 10_000 * time.Hour // the first comparison, at a random time, comes after the test
	}
	cfg.Logger = slog.New(slog.NewTextHandler(f.lines, nil))
	f.cache = mapcache.New(f.inner, cfg)
	f.must(f.cache.Run(nobody{}))
	f.must(f.cache.Subscribe(f.ctx(), "ch"))
	t.Cleanup(func() { f.must(f.cache.Close(f.ctx())) })
	return f
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, cfg mapcache.Config, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newFixture(t, cfg)) })
}

func (f *fixture) ctx() context.Context { return context.Background() }

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

var withStream = channel.MapOptions{StreamSize: 100, StreamTTL: time.Hour}

func (f *fixture) set(ch, key, data string) channel.MapResult {
	f.Helper()
	return f.setWith(ch, key, data, withStream)
}

func (f *fixture) setWith(ch, key, data string, o channel.MapOptions) channel.MapResult {
	f.Helper()
	r, err := f.cache.Describe().Maps.Change(f.ctx(), ch, &channel.Publication{Key: key, Data: []byte(data)}, o)
	f.must(err)
	return r
}

func (f *fixture) read(ch string) string {
	f.Helper()
	s, err := f.cache.Describe().Maps.State(f.ctx(), ch, channel.StateFilter{Limit: -1})
	f.must(err)
	var b strings.Builder
	for _, pub := range s.Entries {
		fmt.Fprintf(&b, "%s=%s@%d ", pub.Key, pub.Data, pub.Offset)
	}
	return fmt.Sprintf("%s%d", b.String(), s.Top.Offset)
}

// want checks a read, and how often it asks the broker.
func (f *fixture) want(ch, want string, asks int) {
	f.Helper()
	before := f.inner.asked()
	if got := f.read(ch); got != want {
		f.Errorf("%s: %s, want %s", ch, got, want)
	}
	if got := f.inner.asked() - before; got != asks {
		f.Errorf("%s: the broker was asked %d times, want %d", ch, got, asks)
	}
}

func (c *counted) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states
}

// metric returns the value of a metric, or of all its labels together.
func (f *fixture) metric(name string) (sum float64) {
	for _, m := range f.cache.Describe().Metrics() {
		if m.Name == "map_cache_"+name || m.Name == "map_cache_drops_total" && m.Labels["reason"] == name {
			sum += m.Value
		}
	}
	return sum
}

func TestReadsFromMemory(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.want("ch", "a=1@1 1", 1)
		f.set("ch", "b", "2")
		f.want("ch", "a=1@1 b=2@2 2", 0)
		maps := f.cache.Describe().Maps
		s, err := maps.State(f.ctx(), "ch", channel.StateFilter{Key: "b"})
		if f.must(err); len(s.Entries) != 1 || s.Count != 2 {
			f.Errorf("%+v", s)
		}
		s, err = maps.State(f.ctx(), "ch", channel.StateFilter{})
		if f.must(err); len(s.Entries) != 0 || s.Count != 2 || s.Top.Offset != 2 {
			f.Errorf("%+v", s)
		}
		h, err := f.cache.History(f.ctx(), "ch", broker.HistoryFilter{Limit: -1, Since: &channel.StreamPosition{}})
		if f.must(err); len(h.Publications) != 2 {
			f.Errorf("%+v", h)
		}
		if hits, loads := f.metric("hits_total"), f.metric("loads_total"); hits != 5 || loads != 1 {
			f.Errorf("%v hits, %v loads", hits, loads)
		}
	})
}

// TestAsTheBroker: what the cache shows is what the broker shows, down to the last field.
func TestAsTheBroker(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		maps := f.cache.Describe().Maps
		change := func(key string) {
			_, err := maps.Change(f.ctx(), "ch", &channel.Publication{
				Key: key, Data: []byte("1"), Tags: map[string]string{"t": "1"}, Version: 3, Score: 7,
				Info: &channel.ClientInfo{User: "u", Client: "c", ConnInfo: []byte("{}"), ChanInfo: []byte("[]")},
			}, withStream)
			f.must(err)
		}
		change("loaded")
		f.read("ch")
		change("applied")
		want, err := f.inner.Broker.Describe().Maps.State(f.ctx(), "ch", channel.StateFilter{Limit: -1})
		f.must(err)
		got, err := maps.State(f.ctx(), "ch", channel.StateFilter{Limit: -1})
		f.must(err)
		if diff := cmp.Diff(want, got); diff != "" {
			f.Errorf("(-broker +cache):\n%s", diff)
		}
	})
}

// TestPassesThrough: what cannot be cached is read at the broker, and is tried again later, or when it changes.
func TestPassesThrough(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    mapcache.Config
		ch     string
		set    func(f *fixture)
		reason string
	}{
		"not subscribed": {ch: "other", set: func(f *fixture) { f.set("other", "a", "1") }},
		"no map":         {cfg: mapcache.Config{IsMap: func(string) bool { return false }}, ch: "ch", set: func(f *fixture) { f.set("ch", "a", "1") }},
		"empty":          {ch: "ch", set: func(*fixture) {}, reason: "empty"},
		"ephemeral":      {ch: "ch", set: func(f *fixture) { f.setWith("ch", "a", "1", channel.MapOptions{KeyTTL: time.Hour}) }, reason: "ephemeral"},
		"too large":      {cfg: mapcache.Config{MaxBytes: 1000}, ch: "ch", set: func(f *fixture) { f.set("ch", "a", strings.Repeat("x", 1000)) }, reason: "large"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, c.cfg, func(f *fixture) {
				c.set(f)
				f.read(c.ch)
				before := f.inner.asked()
				f.read(c.ch)
				if asks := f.inner.asked() - before; asks != 1 {
					f.Errorf("the broker was asked %d times, want once", asks)
				}
				if c.reason != "" && f.metric(c.reason) != 1 {
					f.Errorf("%v refusals for the reason %s", f.metric(c.reason), c.reason)
				}
				if bytes := f.metric("bytes"); bytes != 0 {
					f.Errorf("%v bytes", bytes)
				}
			})
		})
	}
}

func TestIsTriedAgain(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.want("ch", "0", 2)
		f.set("ch", "a", "1")
		f.want("ch", "a=1@1 1", 1)
		time.Sleep(2 * time.Second)
		f.want("ch", "a=1@1 1", 1)
		f.want("ch", "a=1@1 1", 0)
	})
}

// TestOneLoad: readers that come together share a load, and one that gives up does not end it.
func TestOneLoad(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.inner.set(func() { f.inner.gate = make(chan struct{}) })
		hurried, cancel := context.WithTimeout(f.ctx(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := f.cache.Describe().Maps.State(hurried, "ch", channel.StateFilter{}); !errors.Is(err, context.DeadlineExceeded) {
				f.Error(err)
			}
		})
		for range 10 {
			all.Go(func() {
				if got := f.read("ch"); got != "a=1@1 b=2@2 2" {
					f.Error(got)
				}
			})
		}
		time.Sleep(time.Second)
		f.set("ch", "b", "2")
		f.inner.set(func() { close(f.inner.gate); f.inner.gate = nil })
		all.Wait()
		if asks := f.inner.asked(); asks != 2 { // one of them by who gave up
			f.Errorf("the broker was asked %d times", asks)
		}
	})
}

// TestLoadFails: readers do not wait for longer than LoadTimeout, and ask the broker themselves.
func TestLoadFails(t *testing.T) {
	bubble(t, mapcache.Config{LoadTimeout: 2 * time.Second}, func(f *fixture) {
		f.set("ch", "a", "1")
		gate := make(chan struct{})
		f.inner.set(func() { f.inner.gate = gate })
		time.AfterFunc(3*time.Second, func() { f.inner.set(func() { f.inner.gate = nil }); close(gate) })
		begin := time.Now()
		f.want("ch", "a=1@1 1", 2)
		if took := time.Since(begin); took != 3*time.Second || f.metric("failed") != 1 {
			f.Errorf("took %s, %v failures", took, f.metric("failed"))
		}
		f.inner.set(func() { f.inner.fail = errors.New("down") })
		time.Sleep(2 * time.Second)
		if _, err := f.cache.Describe().Maps.State(f.ctx(), "ch", channel.StateFilter{}); err == nil || err.Error() != "down" {
			f.Error(err)
		}
	})
}

// TestReadYourWrites: who has changed a map finds the change, although its event is late.
func TestReadYourWrites(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.want("ch", "a=1@1 1", 1)
		f.inner.set(func() { f.inner.hold = true })
		f.set("ch", "a", "2")
		time.AfterFunc(20*time.Millisecond, func() { f.inner.release(0) })
		f.want("ch", "a=2@2 2", 0)

		f.inner.set(func() { f.inner.hold = true })
		f.set("ch", "a", "3")
		f.want("ch", "a=3@3 3", 1) // it does not come in time
		time.Sleep(2 * time.Second)
		f.read("ch") // finds that it is behind, unless a comparison has
		if f.metric("behind") != 1 {
			f.Error("the channel is behind for ever")
		}
		f.read("ch")
		f.want("ch", "a=3@3 3", 0)
	})
}

// TestNotBackInTime: who has read something at the broker does not find less in the cache.
func TestNotBackInTime(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.want("ch", "a=1@1 1", 1)
		f.inner.set(func() { f.inner.hold = true })
		_, err := f.inner.Broker.Change(f.ctx(), "ch", &channel.Publication{Key: "a", Data: []byte("2")}, withStream)
		f.must(err)
		f.want("ch", "a=1@1 1", 0) // nobody has seen it
		h, err := f.cache.History(f.ctx(), "ch", broker.HistoryFilter{})
		if f.must(err); h.Top.Offset != 2 {
			f.Fatalf("%+v", h)
		}
		f.want("ch", "a=2@2 2", 1)
		f.inner.release(0)
		f.want("ch", "a=2@2 2", 0)
	})
}

// TestDrops: what makes a channel doubtful has it be loaded again.
func TestDrops(t *testing.T) {
	for reason, what := range map[string]func(f *fixture){
		"hole": func(f *fixture) {
			f.inner.set(func() { f.inner.hold = true })
			for _, data := range []string{"2", "3"} {
				_, err := f.inner.Broker.Change(f.ctx(), "ch", &channel.Publication{Key: "a", Data: []byte(data)}, withStream)
				f.must(err)
			}
			f.inner.release(1)
		},
		"loss": func(f *fixture) { f.must(f.inner.Clear(f.ctx(), "ch")); f.set("ch", "a", "2") },
		"epoch": func(f *fixture) {
			f.inner.handler.HandlePublication("ch", broker.PublicationEvent{Pub: &channel.Publication{Key: "a", Offset: 2}, Epoch: "other"})
		},
		"foreign": func(f *fixture) {
			_, err := f.cache.Publish(f.ctx(), "ch", &channel.Publication{}, broker.PublishOptions{HistorySize: 1, HistoryTTL: time.Hour})
			f.must(err)
		},
		"ephemeral":    func(f *fixture) { f.setWith("ch", "a", "2", channel.MapOptions{KeyTTL: time.Hour}) },
		"cleared":      func(f *fixture) { f.must(f.cache.RemoveHistory(f.ctx(), "ch")) },
		"unsubscribed": func(f *fixture) { f.must(f.cache.Unsubscribe(f.ctx(), "ch")) },
		"idle":         func(*fixture) { time.Sleep(11 * time.Minute) },
		"empty": func(f *fixture) {
			_, err := f.cache.Describe().Maps.Change(f.ctx(), "ch", &channel.Publication{Key: "a", Removed: true}, withStream)
			f.must(err)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			bubble(t, mapcache.Config{}, func(f *fixture) {
				f.set("ch", "a", "1")
				f.want("ch", "a=1@1 1", 1)
				what(f)
				if f.metric(reason) != 1 || f.metric("bytes") != 0 || f.metric("channels") != 0 {
					f.Errorf("%v drops, %v bytes, %v channels", f.metric(reason), f.metric("bytes"), f.metric("channels"))
				}
				before := f.inner.asked()
				f.read("ch")
				if f.inner.asked() == before {
					f.Error("the broker was not asked")
				}
			})
		})
	}
}

// TestComparison: a change that was lost without a trace is found, those on their way are not mistaken for it.
func TestComparison(t *testing.T) {
	bubble(t, mapcache.Config{SyncInterval: mapcache.DefaultSyncInterval}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.want("ch", "a=1@1 1", 1)
		stop := time.Now().Add(5 * time.Minute)
		for time.Now().Before(stop) { // each is late by half a second
			f.inner.set(func() { f.inner.hold = true })
			_, err := f.inner.Broker.Change(f.ctx(), "ch", &channel.Publication{Key: "a", Data: []byte("x")}, withStream)
			f.must(err)
			time.Sleep(500 * time.Millisecond)
			f.inner.release(0)
			time.Sleep(100 * time.Millisecond)
			f.read("ch")
		}
		if f.metric("behind") > 0 || f.metric("loads_total") != 1 {
			f.Errorf("%v drops, %v loads", f.metric("behind"), f.metric("loads_total"))
		}
		f.inner.set(func() { f.inner.hold = true })
		last, err := f.inner.Broker.Change(f.ctx(), "ch", &channel.Publication{Key: "a", Data: []byte("lost")}, withStream)
		f.must(err)
		f.inner.release(1)
		time.Sleep(mapcache.DefaultSyncInterval + 2*time.Second)
		f.want("ch", fmt.Sprintf("a=lost@%d %[1]d", last.Position.Offset), 1)
		if line := f.lines.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "channel=ch reason=behind") {
			f.Errorf("log: %s", line)
		}
	})
}

// TestSecretEnd: a map that was cleared without a word is found as well.
func TestSecretEnd(t *testing.T) {
	bubble(t, mapcache.Config{SyncInterval: mapcache.DefaultSyncInterval}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.set("ch", "a", "2")
		f.want("ch", "a=2@2 2", 1)
		f.inner.set(func() { f.inner.hold = true })
		f.must(f.inner.Clear(f.ctx(), "ch"))
		_, err := f.inner.Broker.Change(f.ctx(), "ch", &channel.Publication{Key: "b"}, withStream)
		f.must(err)
		_, err = f.inner.Broker.Change(f.ctx(), "ch", &channel.Publication{Key: "b"}, withStream)
		f.must(err)
		time.Sleep(mapcache.DefaultSyncInterval + 2*time.Second)
		f.want("ch", "b=@2 2", 1)
		if f.metric("epoch") != 1 {
			f.Errorf("%v drops", f.metric("epoch"))
		}
	})
}

// TestOldLoad: a load does not bring back a map that was cleared meanwhile, and which somebody has seen since.
func TestOldLoad(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		for range 3 {
			f.set("ch", "a", "1")
		}
		f.inner.set(func() {
			f.inner.hold = true
			f.inner.after = func() {
				f.must(f.inner.Clear(f.ctx(), "ch"))
				f.set("ch", "b", "2")
			}
		})
		f.want("ch", "b=2@1 1", 2)
		f.inner.release(0)
		time.Sleep(2 * time.Second)
		f.want("ch", "b=2@1 1", 1)
		f.want("ch", "b=2@1 1", 0)
	})
}

// TestOldCopy: a load from a copy that is behind is not taken for the truth.
func TestOldCopy(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.set("ch", "a", "1")
		old, err := f.inner.Broker.State(f.ctx(), "ch", channel.StateFilter{Limit: -1})
		f.must(err)
		f.set("ch", "a", "2")
		f.inner.set(func() { f.inner.copied = old })
		f.want("ch", "a=1@1 1", 2) // that is what the broker shows
		f.inner.set(func() { f.inner.copied = channel.State{} })
		f.want("ch", "a=2@2 2", 1)
		time.Sleep(2 * time.Second)
		f.read("ch") // finds that it is behind, unless a comparison has
		f.read("ch")
		f.want("ch", "a=2@2 2", 0)
	})
}

// TestEviction: the channels that were read least recently go when there are too many, or they are too large.
func TestEviction(t *testing.T) {
	bubble(t, mapcache.Config{MaxChannels: 2, MaxBytes: 10_000}, func(f *fixture) {
		f.must(f.cache.Subscribe(f.ctx(), "x", "y", "z"))
		for _, ch := range []string{"x", "y", "z"} {
			f.set(ch, "a", "1")
			f.want(ch, "a=1@1 1", 1)
		}
		f.want("y", "a=1@1 1", 0)
		f.want("z", "a=1@1 1", 0)
		f.want("x", "a=1@1 1", 1) // y goes
		f.want("z", "a=1@1 1", 0)
		f.set("z", "b", strings.Repeat("x", 4400)) // twice this: as an entry, and as a change
		if f.metric("evicted") != 3 || f.metric("bytes") > 10_000 || f.metric("channels") != 1 {
			f.Errorf("%v evicted, %v bytes, %v channels", f.metric("evicted"), f.metric("bytes"), f.metric("channels"))
		}
		f.want("z", fmt.Sprintf("a=1@1 b=%s@2 2", strings.Repeat("x", 4400)), 0)
		f.set("z", "c", strings.Repeat("x", 4400)) // no room for changes any more
		h, err := f.cache.History(f.ctx(), "z", broker.HistoryFilter{Limit: 1, Since: &channel.StreamPosition{Offset: 2}})
		if f.must(err); len(h.Publications) != 1 || f.metric("bytes") > 10_000 || f.metric("misses_total") != 1 {
			f.Errorf("%d changes, %v bytes, %v misses", len(h.Publications), f.metric("bytes"), f.metric("misses_total"))
		}
		f.want("x", "a=1@1 1", 1)
		f.want("z", fmt.Sprintf("a=1@1 b=%s@2 c=%[1]s@3 3", strings.Repeat("x", 4400)), 0)
		f.set("z", "d", strings.Repeat("x", 4400)) // and none for the entries, but those of x stay
		f.want("x", "a=1@1 1", 0)
		if f.metric("large") != 1 || f.metric("channels") != 1 {
			f.Errorf("%v too large, %v channels", f.metric("large"), f.metric("channels"))
		}
	})
}

// TestStream: the cache has the changes from before the load, and no more than StreamSize.
func TestStream(t *testing.T) {
	bubble(t, mapcache.Config{StreamSize: 10}, func(f *fixture) {
		for i := range 20 {
			f.set("ch", "a", fmt.Sprint(i))
		}
		f.read("ch")
		since := func(offset uint64, limit int, hits float64) {
			f.Helper()
			before := f.metric("hits_total")
			h, err := f.cache.History(f.ctx(), "ch", broker.HistoryFilter{Limit: limit, Since: &channel.StreamPosition{Offset: offset}})
			f.must(err)
			n := int(h.Top.Offset - offset)
			if limit > 0 {
				n = min(n, limit)
			}
			if len(h.Publications) != n || n > 0 && h.Publications[0].Offset != offset+1 {
				f.Errorf("since %d: %+v", offset, h)
			}
			if got := f.metric("hits_total") - before; got != hits {
				f.Errorf("since %d: %v hits", offset, got)
			}
		}
		since(20, -1, 1)
		since(10, -1, 1)
		since(12, 3, 1)
		since(9, -1, 0)
		for i := range 25 {
			f.set("ch", "b", fmt.Sprint(i))
		}
		since(35, -1, 1)
		since(34, -1, 0)
		if _, err := f.cache.History(f.ctx(), "ch", broker.HistoryFilter{Limit: -1, Since: &channel.StreamPosition{Offset: 99}}); err != nil {
			f.Error(err)
		}
	})
}

func TestWithoutMaps(t *testing.T) {
	if b := broker.Broker(plain{memory.New(memory.Config{})}); mapcache.New(b, mapcache.Config{}) != b {
		t.Error("a broker without maps is not returned as it is")
	}
}

type plain struct{ broker.Broker }

func (plain) Describe() broker.Traits { return broker.Traits{Name: "plain", History: true} }

// TestClosed: nothing is answered from memory after Close.
func TestClosed(t *testing.T) {
	bubble(t, mapcache.Config{}, func(f *fixture) {
		f.set("ch", "a", "1")
		f.read("ch")
		f.must(f.cache.Close(f.ctx()))
		if _, err := f.cache.Describe().Maps.State(f.ctx(), "ch", channel.StateFilter{}); err == nil {
			f.Error("a read after Close succeeds")
		}
	})
}
