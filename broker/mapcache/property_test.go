package mapcache_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/mapcache"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
)

// The property test: two nodes share a broker, which delivers late, loses changes with and without saying so, and
// is cleared. Each read on a node shows the map as it was at the position that the read names; nothing that
// the node has delivered before, or that this reader has read or changed before, is missing. When the changes have
// stopped for as long as a comparison of positions takes, reads show all of them.

const (
	propertySeeds  = 12
	propertyPhases = 3
	leastStream    = 4 // the least StreamSize of a change
	syncInterval   = 10 * time.Second
	longestTTL     = 3 * time.Second
	latest         = 200 * time.Millisecond // how late deliveries are, at most
)

var propertyChannels = []string{"a", "b", "c"}

// someChannel is a or b nearly always, because there is room for two.
func (w *world) someChannel() string { return propertyChannels[w.roll(21)/10] }

func TestProperty(t *testing.T) {
	var hits, misses float64
	drops := map[string]float64{}
	for seed := range uint64(propertySeeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				defer w.close()
				for range propertyPhases {
					w.run()
					w.settle()
				}
				for _, n := range w.nodes {
					for _, m := range n.cached.Describe().Metrics() {
						switch m.Name {
						case "map_cache_hits_total":
							hits += m.Value
						case "map_cache_misses_total":
							misses += m.Value
						case "map_cache_drops_total":
							drops[m.Labels["reason"]] += m.Value
						case "map_cache_bytes":
							if m.Value < 0 {
								t.Errorf("%v bytes", m.Value)
							}
						}
					}
				}
			})
		})
		if t.Failed() {
			return
		}
	}
	if hits < misses {
		t.Errorf("%v hits, %v misses: the test does not test much", hits, misses)
	}
	for _, reason := range []string{"hole", "loss", "epoch", "evicted", "behind", "unsubscribed", "cleared"} {
		if drops[reason] == 0 {
			t.Errorf("no channel was dropped for the reason %s", reason)
		}
	}
	t.Logf("%v hits, %v misses, drops %v", hits, misses, drops)
}

// world is the broker that the nodes share, and all that has ever happened.
type world struct {
	*testing.T
	shared *memory.Broker
	nodes  []*node

	mu      sync.Mutex
	random  *rand.Rand
	history map[string][]moment
	index   map[string]map[channel.StreamPosition]int // of history, by channel
}

// moment is a map after a change.
type moment struct {
	position channel.StreamPosition
	change   *channel.Publication
	entries  map[string]*channel.Publication
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, shared: memory.New(memory.Config{}), random: rand.New(rand.NewPCG(seed, 1)),
		history: map[string][]moment{}, index: map[string]map[channel.StreamPosition]int{},
	}
	w.must(w.shared.Run(w))
	w.must(w.shared.Subscribe(t.Context(), propertyChannels...))
	for i := range 2 {
		n := &node{Broker: w.shared, world: w, queues: map[string]*queue{}, subscribed: map[string]bool{}, delivered: map[string]int{}}
		var isMap func(string) bool
		if i == 1 {
			isMap = func(string) bool { return true }
		}
		n.cached = mapcache.New(n, mapcache.Config{
			IsMap: isMap, MaxChannels: 2, SyncInterval: syncInterval, SyncBatchSize: 2, StreamSize: 50, MaxBytes: 20_000, LoadTimeout: time.Second,
			Logger: slog.New(slog.DiscardHandler),
		})
		w.nodes = append(w.nodes, n)
		w.must(n.cached.Run(recorder{n}))
		w.must(n.cached.Subscribe(t.Context(), propertyChannels...))
	}
	return w
}

func (w *world) close() {
	for _, n := range w.nodes {
		w.must(n.cached.Close(context.Background()))
	}
	w.must(w.shared.Close(context.Background()))
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// roll returns a random number below n.
func (w *world) roll(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

func (w *world) pause(most time.Duration) { time.Sleep(time.Duration(w.roll(int(most)))) }

// HandlePublication notes a change, and sends it to the nodes.
func (w *world) HandlePublication(ch string, e broker.PublicationEvent) {
	w.mu.Lock()
	entries := map[string]*channel.Publication{}
	if all := w.history[ch]; len(all) > 0 && all[len(all)-1].position.Epoch == e.Epoch {
		entries = maps.Clone(all[len(all)-1].entries)
	}
	if e.Pub.Removed {
		delete(entries, e.Pub.Key)
	} else {
		entries[e.Pub.Key] = e.Pub
	}
	at := channel.StreamPosition{Offset: e.Pub.Offset, Epoch: e.Epoch}
	if w.index[ch] == nil {
		w.index[ch] = map[channel.StreamPosition]int{}
	}
	w.history[ch] = append(w.history[ch], moment{at, e.Pub, entries})
	w.index[ch][at] = len(w.history[ch])
	w.mu.Unlock()
	for _, n := range w.nodes {
		n.send(ch, &e)
	}
}

func (w *world) HandleLoss(match func(string) bool) {
	for _, n := range w.nodes {
		for _, ch := range propertyChannels {
			if match(ch) {
				n.send(ch, nil)
			}
		}
	}
}

func (w *world) HandleJoin(string, *channel.ClientInfo)  {}
func (w *world) HandleLeave(string, *channel.ClientInfo) {}

// when returns the number of a position, counted from 1, and the map at that time. An empty map that has no
// change is at no known time: 0.
func (w *world) when(ch string, at channel.StreamPosition) (int, moment) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.index[ch][at]
	if !ok {
		if at.Offset > 0 {
			w.Errorf("%s: there is no position %+v", ch, at)
		}
		return 0, moment{}
	}
	return i, w.history[ch][i-1]
}

// run has readers, writers and trouble for a while.
func (w *world) run() {
	var all sync.WaitGroup
	for _, n := range w.nodes {
		for range 2 {
			all.Go(func() { (&actor{node: n, seen: map[string]int{}}).run(60, false) })
			all.Go(func() { (&actor{node: n, seen: map[string]int{}}).run(60, true) })
		}
		all.Go(n.trouble)
	}
	all.Wait()
}

// settle has a change get lost without a trace, and waits until reads have to show everything.
func (w *world) settle() {
	time.Sleep(latest)
	n, o := w.nodes[0], channel.MapOptions{StreamSize: 100, StreamTTL: time.Hour}
	for _, key := range []string{"kept", "lost"} {
		n.deaf.Store(key == "lost")
		_, err := w.nodes[1].cached.Describe().Maps.Change(w.Context(), "a", &channel.Publication{Key: key}, o)
		w.must(err)
		time.Sleep(latest)
		_, err = n.cached.Describe().Maps.State(w.Context(), "a", channel.StateFilter{})
		w.must(err)
	}
	n.deaf.Store(false)
	time.Sleep(longestTTL + syncInterval + 3*time.Second) // also the last removal of an expired entry may get lost
	for _, ch := range propertyChannels {
		want, err := w.shared.State(w.Context(), ch, channel.StateFilter{Limit: -1})
		w.must(err)
		for _, n := range w.nodes {
			got, err := n.cached.Describe().Maps.State(w.Context(), ch, channel.StateFilter{Limit: -1})
			w.must(err)
			if diff := cmp.Diff(want, got, compareEmpty); diff != "" {
				w.Errorf("%s after everything has settled (-want +got):\n%s", ch, diff)
			}
		}
	}
}

// node is the shared broker as a node has it: deliveries are late, and may get lost.
type node struct {
	broker.Broker
	world   *world
	cached  broker.Broker
	handler broker.EventHandler
	deaf    atomic.Bool // it gets nothing

	mu         sync.Mutex
	queues     map[string]*queue
	subscribed map[string]bool
	delivered  map[string]int // the number of the newest change that the node has got
}

// queue of a channel's events. nil is a loss.
type queue struct {
	events  []*broker.PublicationEvent
	running bool
}

func (n *node) Run(h broker.EventHandler) error { n.handler = h; return nil }
func (n *node) Close(context.Context) error     { return nil }

func (n *node) Describe() broker.Traits {
	t := n.Broker.Describe()
	t.Maps = slowMaps{t.Maps, n.world}
	return t
}

func (n *node) Subscribe(_ context.Context, channels ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range channels {
		n.subscribed[ch] = true
	}
	return nil
}

func (n *node) Unsubscribe(_ context.Context, channels ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range channels {
		n.subscribed[ch] = false
	}
	return nil
}

// History takes some time, before and after.
func (n *node) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	n.world.pause(20 * time.Millisecond)
	h, err := n.Broker.History(ctx, ch, f)
	n.world.pause(20 * time.Millisecond)
	return h, err
}

// send has an event be delivered later. Some get lost.
func (n *node) send(ch string, e *broker.PublicationEvent) {
	chance := n.world.roll(100)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.subscribed[ch] || n.deaf.Load() {
		return
	}
	q := n.queues[ch]
	if q == nil {
		q = &queue{}
		n.queues[ch] = q
	}
	switch {
	case chance == 0 || e == nil && chance < 20: // nobody notices
		return
	case e == nil || chance == 1: // with all that is on its way
		q.events, e = nil, nil
	}
	q.events = append(q.events, e)
	if !q.running {
		q.running = true
		go n.deliver(ch, q)
	}
}

func (n *node) deliver(ch string, q *queue) {
	for {
		if n.world.roll(3) == 0 {
			n.world.pause(latest / 4)
		}
		n.mu.Lock()
		if len(q.events) == 0 {
			q.running = false
			n.mu.Unlock()
			return
		}
		e := q.events[0]
		q.events = q.events[1:]
		n.mu.Unlock()
		if e == nil {
			n.handler.HandleLoss(func(lost string) bool { return lost == ch })
			continue
		}
		// What is received lies in memory that is used again.
		memory := &arena{}
		pub := *e.Pub
		pub.Data = append(memory.data[:0], pub.Data...)
		n.handler.HandlePublication(ch, broker.PublicationEvent{Pub: &pub, Epoch: e.Epoch, Memory: memory})
	}
}

// arena is overwritten when it is free.
type arena struct{ data [16]byte }

func (a *arena) Free(int) { copy(a.data[:], bytes.Repeat([]byte("!"), len(a.data))) }

// trouble leaves and enters channels, clears them, and reports losses.
func (n *node) trouble() {
	for range 20 {
		n.world.pause(200 * time.Millisecond)
		ch := n.world.someChannel()
		switch n.world.roll(8) {
		case 0:
			n.world.must(n.cached.Unsubscribe(n.world.Context(), ch))
			n.world.pause(50 * time.Millisecond)
			n.world.must(n.cached.Subscribe(n.world.Context(), ch))
		case 1:
			n.clear(ch)
		case 2:
			n.world.must(n.cached.RemoveHistory(n.world.Context(), ch))
		}
	}
}

// clear clears a channel, and finds nothing that was there before.
func (n *node) clear(ch string) {
	n.world.mu.Lock()
	before := len(n.world.history[ch])
	n.world.mu.Unlock()
	maps := n.cached.Describe().Maps
	n.world.must(maps.Clear(n.world.Context(), ch))
	s, err := maps.State(n.world.Context(), ch, channel.StateFilter{})
	n.world.must(err)
	if number, _ := n.world.when(ch, s.Top); number > 0 && number <= before {
		n.world.Errorf("%s: change %d is read after the channel was cleared at change %d", ch, number, before)
	}
}

// slowMaps takes some time, before and after.
type slowMaps struct {
	broker.Maps
	world *world
}

func (m slowMaps) Change(ctx context.Context, ch string, pub *channel.Publication, o channel.MapOptions) (channel.MapResult, error) {
	m.world.pause(5 * time.Millisecond)
	return m.Maps.Change(ctx, ch, pub, o)
}

func (m slowMaps) State(ctx context.Context, ch string, f channel.StateFilter) (channel.State, error) {
	if f.Limit > 100 {
		f.Limit = 4 // a load takes several pages
	}
	m.world.pause(20 * time.Millisecond)
	s, err := m.Maps.State(ctx, ch, f)
	m.world.pause(20 * time.Millisecond)
	return s, err
}

// recorder is the node behind the cache.
type recorder struct{ *node }

func (r recorder) HandlePublication(ch string, e broker.PublicationEvent) {
	at, _ := r.world.when(ch, channel.StreamPosition{Offset: e.Pub.Offset, Epoch: e.Epoch})
	r.mu.Lock()
	r.delivered[ch] = max(r.delivered[ch], at)
	r.mu.Unlock()
	e.Memory.Free(1)
}

func (r recorder) HandleJoin(string, *channel.ClientInfo)  {}
func (r recorder) HandleLeave(string, *channel.ClientInfo) {}
func (r recorder) HandleLoss(func(string) bool)            {}

// actor reads, and changes, maps on a node.
type actor struct {
	*node
	seen map[string]int // the number of the newest change that it has seen, by channel
}

func (a *actor) run(steps int, writes bool) {
	for range steps {
		a.world.pause(50 * time.Millisecond)
		ch := a.world.someChannel()
		if writes && a.world.roll(2) == 0 {
			a.change(ch)
		}
		a.mu.Lock()
		least := max(a.seen[ch], a.delivered[ch])
		a.mu.Unlock()
		var at channel.StreamPosition
		switch a.world.roll(4) {
		case 0:
			at = a.readStream(ch)
		default:
			at = a.readState(ch)
		}
		number, _ := a.world.when(ch, at)
		if number > 0 && number < least {
			a.world.Errorf("%s: read change %d (%+v), although %d was seen before", ch, number, at, least)
		}
		a.seen[ch] = max(a.seen[ch], number)
	}
}

func (a *actor) change(ch string) {
	o := channel.MapOptions{StreamSize: leastStream + a.world.roll(20), StreamTTL: time.Hour}
	if a.world.roll(3) == 0 {
		o.KeyTTL = time.Duration(1 + a.world.roll(int(longestTTL)))
	}
	pub := &channel.Publication{Key: fmt.Sprint("k", a.world.roll(12)), Removed: a.world.roll(4) == 0, Tags: map[string]string{"t": fmt.Sprint(a.world.roll(3))}}
	if !pub.Removed {
		pub.Data = fmt.Append(nil, a.world.roll(1_000_000))
	}
	result, err := a.cached.Describe().Maps.Change(a.world.Context(), ch, pub, o)
	a.world.must(err)
	if result.Position.Offset > 0 {
		number, _ := a.world.when(ch, result.Position)
		a.seen[ch] = max(a.seen[ch], number)
	}
}

// readState reads a page, a key or the numbers, and compares with the map as it was.
func (a *actor) readState(ch string) channel.StreamPosition {
	f := channel.StateFilter{}
	switch a.world.roll(4) {
	case 0:
		f.Limit = -1
	case 1:
		f.Limit, f.Cursor = 1+a.world.roll(8), fmt.Sprint("k", a.world.roll(12))
	case 2:
		f.Key = fmt.Sprint("k", a.world.roll(12))
	}
	got, err := a.cached.Describe().Maps.State(a.world.Context(), ch, f)
	a.world.must(err)
	_, then := a.world.when(ch, got.Top)
	want := pageOf(&then, f)
	want.Top = got.Top
	if diff := cmp.Diff(want, got, compareEmpty); diff != "" {
		a.world.Errorf("%s: %+v (-want +got):\n%s", ch, f, diff)
	}
	return got.Top
}

var compareEmpty = cmpopts.EquateEmpty()

// pageOf is State of a moment.
func pageOf(m *moment, f channel.StateFilter) channel.State {
	s := channel.State{Count: len(m.entries)}
	if f.Key != "" {
		if pub, ok := m.entries[f.Key]; ok {
			s.Entries = append(s.Entries, pub)
		}
		return s
	}
	for _, key := range slices.Sorted(maps.Keys(m.entries)) {
		switch {
		case f.Limit == 0 || key <= f.Cursor:
		case len(s.Entries) == f.Limit:
			s.Cursor = s.Entries[f.Limit-1].Key
			return s
		default:
			s.Entries = append(s.Entries, m.entries[key])
		}
	}
	return s
}

// readStream reads changes since a position, and compares with those that were made.
func (a *actor) readStream(ch string) channel.StreamPosition {
	a.world.mu.Lock()
	all := a.world.history[ch]
	f := broker.HistoryFilter{Limit: -1, Since: &channel.StreamPosition{}}
	if len(all) > 0 {
		f.Since = &all[max(0, len(all)-1-a.world.random.IntN(20))].position
	}
	if a.world.random.IntN(2) == 0 {
		f.Limit = 1 + a.world.random.IntN(5)
	}
	a.world.mu.Unlock()
	h, err := a.cached.History(a.world.Context(), ch, f)
	a.world.must(err)
	if f.Since.Epoch != h.Top.Epoch || f.Since.Offset >= h.Top.Offset {
		return h.Top
	}
	next := f.Since.Offset + 1
	for i, pub := range h.Publications {
		if i == 0 && pub.Offset > next {
			next = pub.Offset // the stream has lost its beginning
		}
		_, then := a.world.when(ch, channel.StreamPosition{Offset: next, Epoch: h.Top.Epoch})
		if diff := cmp.Diff(then.change, pub, compareEmpty); diff != "" {
			a.world.Fatalf("%s: change %d since %d, top %+v (-want +got):\n%s", ch, next, f.Since.Offset, h.Top, diff)
		}
		next++
	}
	if next <= h.Top.Offset && f.Limit < 0 && len(h.Publications) > 0 {
		a.world.Errorf("%s: changes until %d, top %+v", ch, next-1, h.Top)
	}
	return h.Top
}
