package compose_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/brokertest"
	"github.com/gyrohq/gyro/broker/brokertest/maptest"
	"github.com/gyrohq/gyro/broker/compose"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// byHash spreads the channels of the conformance suite over two engines.
func byHash(ch string) int {
	h := fnv.New32a()
	h.Write([]byte(ch))
	return int(h.Sum32()>>7) % 2
}

// byName routes "2:…" to engine 2; a name without digit leads nowhere.
func byName(ch string) int { return int(ch[0]) - '0' }

func TestBrokerConformance(t *testing.T) {
	brokertest.RunBroker(t, func(testing.TB) broker.Broker {
		return compose.NewBroker(byHash, memory.New(memory.Config{}), memory.New(memory.Config{}))
	}, brokertest.Capabilities{Virtual: true, SuppressedRenews: true})
}

func TestMapConformance(t *testing.T) {
	maptest.Run(t, func(testing.TB) broker.Broker {
		return compose.NewBroker(byHash, memory.New(memory.Config{}), memory.New(memory.Config{}))
	}, brokertest.Capabilities{Virtual: true})
}

// TestMapsOfOneEngine composes an engine that has maps with one that has none.
func TestMapsOfOneEngine(t *testing.T) {
	b := compose.NewBroker(byName, plain{memory.New(memory.Config{})}, memory.New(memory.Config{}))
	if err := b.Run(&recorder{}); err != nil {
		t.Fatal(err)
	}
	defer b.Close(t.Context())
	maps := b.Describe().Maps
	for ch, want := range map[string]error{"0": protocol.ErrorNotAvailable, "1": nil} {
		_, change := maps.Change(t.Context(), ch, &channel.Publication{Key: "a"}, channel.MapOptions{KeyTTL: time.Minute})
		_, state := maps.State(t.Context(), ch, channel.StateFilter{})
		for _, err := range []error{change, state, maps.Clear(t.Context(), ch)} {
			if !errors.Is(err, want) {
				t.Errorf("channel %s: %v, want %v", ch, err, want)
			}
		}
	}
}

// TestPlainConformance composes engines that have the least that engines can have.
func TestPlainConformance(t *testing.T) {
	brokertest.RunBroker(t, func(testing.TB) broker.Broker {
		return compose.NewBroker(byHash, plain{memory.New(memory.Config{})}, plain{memory.New(memory.Config{})})
	}, brokertest.Capabilities{Virtual: true, SuppressedRenews: true})
}

func TestPresenceConformance(t *testing.T) {
	brokertest.RunPresence(t, func(_ testing.TB, ttl time.Duration) broker.PresenceManager {
		c := memory.Config{PresenceTTL: ttl}
		return compose.NewPresence(byHash, memory.NewPresence(c), memory.NewPresence(c))
	}, brokertest.Capabilities{Virtual: true})
}

// plain has only what tests of history need.
type plain struct{ broker.Broker }

func (plain) Describe() broker.Traits {
	return broker.Traits{Name: "plain", History: true, Idempotency: true, Versions: true, Delta: true}
}

// remote is an engine with controls, health and a will to fail.
type remote struct {
	broker.Broker
	name   string
	fail   error
	closed int
	h      broker.EventHandler
}

func newRemote(name string) *remote { return &remote{Broker: memory.New(memory.Config{}), name: name} }

func (r *remote) Run(h broker.EventHandler) error {
	if r.fail != nil {
		return r.fail
	}
	r.h = h
	return r.Broker.Run(h)
}

func (r *remote) Subscribe(ctx context.Context, channels ...string) error {
	if r.fail != nil {
		return r.fail
	}
	return r.Broker.Subscribe(ctx, channels...)
}

func (r *remote) Close(ctx context.Context) error {
	r.closed++
	return r.Broker.Close(ctx)
}

func (r *remote) Describe() broker.Traits {
	return broker.Traits{Name: "remote", Control: r, Health: func() []broker.Health { return []broker.Health{{Part: r.name}} }}
}

func (r *remote) RunControl(string, func([]byte)) error { return errors.New(r.name) }

func (r *remote) PublishControl(context.Context, string, []byte) error { return nil }

// edited is an engine with other traits.
type edited struct {
	broker.Broker
	traits broker.Traits
}

func edit(b broker.Broker, change func(*broker.Traits)) broker.Broker {
	e := edited{b, b.Describe()}
	change(&e.traits)
	return e
}

func (e edited) Describe() broker.Traits { return e.traits }

// TestTraits checks what a composition is and does, as far as that follows from its engines.
func TestTraits(t *testing.T) {
	type has struct{ Local, Control, Positions, History, Versions bool }
	local := func() broker.Broker { return memory.New(memory.Config{}) }
	inexact := edit(local(), func(t *broker.Traits) { t.Positions = nil })
	withoutVersions := edit(local(), func(t *broker.Traits) { t.Versions = false })
	controlling := edit(local(), func(t *broker.Traits) { t.Control = newRemote("a") })
	for name, c := range map[string]struct {
		engines []broker.Broker
		want    has
	}{
		"local":             {[]broker.Broker{local(), local()}, has{Local: true, Positions: true, History: true, Versions: true}},
		"one without":       {[]broker.Broker{local(), withoutVersions}, has{Local: true, Positions: true, History: true}},
		"local, inexact":    {[]broker.Broker{local(), inexact}, has{Local: true, History: true, Versions: true}},
		"local, remote":     {[]broker.Broker{local(), newRemote("a")}, has{Positions: true}},
		"remote, local":     {[]broker.Broker{newRemote("a"), local()}, has{Positions: true, Control: true}},
		"controlling":       {[]broker.Broker{controlling, local()}, has{Local: true, Control: true, Positions: true, History: true, Versions: true}},
		"plain, plain":      {[]broker.Broker{plain{local()}, plain{local()}}, has{Positions: true, History: true, Versions: true}},
		"remotes and local": {[]broker.Broker{newRemote("a"), newRemote("b"), local()}, has{Positions: true, Control: true}},
	} {
		got := compose.NewBroker(byName, c.engines...).Describe()
		if h := (has{got.Local, got.Control != nil, got.Positions != nil, got.History, got.Versions}); h != c.want {
			t.Errorf("%s: %+v, want %+v", name, h, c.want)
		}
		if got.Batch == nil || got.Health == nil || got.Metrics != nil || got.Name != "compose" {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Control != nil {
			if err := got.Control.RunControl("", nil); err == nil || err.Error() != "a" {
				t.Errorf("%s: controlled by %v, want engine 0", name, err)
			}
		}
	}
	if one := newRemote("a"); compose.NewBroker(byName, one) != broker.Broker(one) {
		t.Error("a single engine is not returned as it is")
	}
}

// TestRouting checks that every operation reaches the engine of its channel alone.
func TestRouting(t *testing.T) {
	ctx := context.Background()
	engines := []broker.Broker{newRemote("zero"), newRemote("one"), newRemote("two")}
	b := compose.NewBroker(byName, engines...)
	got := &recorder{}
	if err := b.Run(got); err != nil {
		t.Fatal(err)
	}
	channels := []string{"2:a", "0:b", "x:c", "1:d", "2:e"}
	home := map[string]int{"2:a": 2, "0:b": 0, "x:c": 0, "1:d": 1, "2:e": 2}
	if err := b.Subscribe(ctx, channels...); err != nil {
		t.Fatal(err)
	}
	keep := broker.PublishOptions{HistorySize: 5, HistoryTTL: time.Hour}
	shared := &channel.Publication{Data: []byte("1")}
	batch := make([]broker.BatchItem, 0, len(channels))
	for _, ch := range channels {
		batch = append(batch, broker.BatchItem{Channel: ch, Pub: shared})
		batch = append(batch, broker.BatchItem{Channel: ch, Pub: &channel.Publication{Data: []byte("2")}, Options: keep})
	}
	b.Describe().Batch(ctx, batch)
	for i, item := range batch {
		if item.Err != nil || item.Result.Position.Offset != uint64(i%2) {
			t.Errorf("item %d: %+v, %v", i, item.Result, item.Err)
		}
	}
	if shared.Time != 0 {
		t.Error("a publication that engines share was given to one of them")
	}
	results := b.Describe().Positions(ctx, channels, 0)
	for i, ch := range channels {
		if got := len(got.of(ch)); got != 2 {
			t.Errorf("%s: %d events", ch, got)
		}
		for k, e := range engines {
			h, err := e.History(ctx, ch, broker.HistoryFilter{Limit: -1})
			if want := home[ch] == k; err != nil || (len(h.Publications) == 1) != want {
				t.Errorf("%s at engine %d: %d publications, %v", ch, k, len(h.Publications), err)
			} else if want && (results[i].Err != nil || results[i].Top != h.Top) {
				t.Errorf("%s: position %+v, want %+v", ch, results[i], h.Top)
			}
		}
	}
	var parts []string
	for _, h := range b.Describe().Health() {
		parts = append(parts, h.Part)
	}
	if diff := cmp.Diff([]string{"zero", "one", "two"}, parts); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	checkLoss(t, engines[2].(*remote), got, channels)
	if err := b.Unsubscribe(ctx, channels...); err != nil {
		t.Error(err)
	}
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

// checkLoss: an engine that lost everything lost nothing of the others' channels.
func checkLoss(t *testing.T, e *remote, got *recorder, channels []string) {
	t.Helper()
	e.h.HandleLoss(func(string) bool { return true })
	lost := slices.DeleteFunc(slices.Clone(channels), func(ch string) bool { return !got.match(ch) })
	if diff := cmp.Diff([]string{"2:a", "2:e"}, lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	e.h.HandleLoss(func(ch string) bool { return ch == "2:e" })
	if got.match("2:a") || !got.match("2:e") {
		t.Error("the engine's own choice is not heard")
	}
}

func TestFailures(t *testing.T) {
	ctx := context.Background()
	first, second := newRemote("first"), newRemote("second")
	second.fail = errors.New("refused")
	b := compose.NewBroker(byName, first, second)
	err := b.Run(&recorder{})
	if !errors.Is(err, second.fail) || !strings.Contains(err.Error(), "engine 1") {
		t.Errorf("run: %v", err)
	}
	if first.closed != 1 || second.closed != 0 {
		t.Errorf("closed %d and %d times", first.closed, second.closed)
	}

	first, second = newRemote("first"), newRemote("second")
	b = compose.NewBroker(byName, first, second)
	if err := b.Run(&recorder{}); err != nil {
		t.Fatal(err)
	}
	second.fail = errors.New("broken")
	if err := b.Subscribe(ctx, "0:a"); err != nil {
		t.Errorf("an engine suffers from the other: %v", err)
	}
	if err := b.Subscribe(ctx, "0:a", "1:a"); !errors.Is(err, second.fail) {
		t.Errorf("subscribe: %v", err)
	}
	if err := b.Subscribe(ctx); err != nil {
		t.Errorf("no channels: %v", err)
	}
	if err := b.Close(ctx); err != nil || first.closed != 1 || second.closed != 1 {
		t.Errorf("close: %v, %d, %d", err, first.closed, second.closed)
	}
}

// TestSingle: a channel's operation costs nothing more than the engine's own.
func TestSingle(t *testing.T) {
	one := memory.New(memory.Config{})
	b := compose.NewBroker(byHash, one, memory.New(memory.Config{}))
	if err := b.Run(&recorder{}); err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	channels := []string{"1:a"}
	read := func(e broker.Broker) float64 {
		return testing.AllocsPerRun(100, func() {
			if err := e.Subscribe(context.Background(), channels...); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got, want := read(b), read(one); got > want+1 && !raceEnabled {
		t.Errorf("%v allocations, the engine has %v", got, want)
	}
}

func BenchmarkHistory(b *testing.B) {
	ctx := context.Background()
	for _, composed := range []bool{false, true} {
		b.Run(fmt.Sprintf("composed=%v", composed), func(b *testing.B) {
			e := broker.Broker(memory.New(memory.Config{}))
			if composed {
				e = compose.NewBroker(byName, e, memory.New(memory.Config{}))
			}
			if err := e.Run(&recorder{}); err != nil {
				b.Fatal(err)
			}
			defer e.Close(ctx)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.History(ctx, "0:a", broker.HistoryFilter{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// recorder counts events.
type recorder struct {
	mu     sync.Mutex
	events []string
	match  func(string) bool
}

func (r *recorder) add(ch string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, ch)
}

func (r *recorder) of(ch string) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e == ch {
			list = append(list, e)
		}
	}
	return list
}

func (r *recorder) HandlePublication(ch string, _ broker.PublicationEvent) { r.add(ch) }
func (r *recorder) HandleJoin(ch string, _ *channel.ClientInfo)            { r.add(ch) }
func (r *recorder) HandleLeave(ch string, _ *channel.ClientInfo)           { r.add(ch) }
func (r *recorder) HandleLoss(match func(string) bool)                     { r.match = match }
