package brokertest

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// testModel calls the broker and a model of slices and plain loops at random.
func testModel(f *fixture) {
	if f.caps.slow { // the model's time stands still: nothing may expire
		f.caps.Unit = time.Hour
	}
	rapid.Check(f, func(t *rapid.T) {
		m := &model{f: f, caps: f.caps, channels: map[string]*modelChannel{}}
		for range 2 {
			ch := f.name()
			m.names = append(m.names, ch)
			m.channels[ch] = &modelChannel{results: map[string]modelResult{}, missed: map[string]bool{}}
		}
		actions := map[string]func(*rapid.T){
			"publish":     m.publish,
			"publish2":    m.publish, // twice as often as the others
			"history":     m.history,
			"remove":      m.remove,
			"subscribe":   m.subscribe,
			"unsubscribe": m.unsubscribe,
			"":            m.compareEvents,
		}
		if !f.caps.slow {
			actions["advance"] = m.advance
		}
		t.Repeat(actions)
	})
}

type model struct {
	f        *fixture
	caps     Capabilities
	now      time.Duration
	names    []string
	channels map[string]*modelChannel
	count    int // publications so far
}

type modelChannel struct {
	subscribed bool
	events     []modelEvent
	missed     map[string]bool // data of publications without subscribers
	results    map[string]modelResult
	epochs     []string // all that were seen, the newest last

	empty        bool // the last stream ended without a publication: the next may have its epoch
	exists       bool // there is a stream, and the following fields count
	top          uint64
	stored       []modelPublication
	version      uint64
	versionEpoch string
	until        time.Duration // end of the stored ones
	metaUntil    time.Duration
}

type modelResult struct {
	position channel.StreamPosition
	until    time.Duration
}

type modelPublication struct {
	Offset uint64
	Data   string
}

type modelEvent struct {
	Pub   modelPublication
	Epoch string
	Delta bool
	Prev  modelPublication
}

// pick also removes expired publications from the model.
func (m *model) pick(t *rapid.T) (string, *modelChannel) {
	name := rapid.SampledFrom(m.names).Draw(t, "channel")
	c := m.channels[name]
	if c.exists && c.metaUntil <= m.now {
		*c = modelChannel{subscribed: c.subscribed, events: c.events, missed: c.missed, results: c.results, epochs: c.epochs, empty: c.top == 0}
	}
	if c.until <= m.now {
		c.stored = nil
	}
	return name, c
}

// create makes the stream if there is none. Its epoch must be new, unless the last stream ended without a publication.
func (m *model) create(t *rapid.T, c *modelChannel, epoch string) {
	if c.exists {
		if epoch != c.epoch() {
			t.Fatalf("epoch %q, want %q", epoch, c.epoch())
		}
		return
	}
	known := c.epochs
	if c.empty {
		known = known[:len(known)-1]
	}
	if epoch == "" || epoch == noEpoch || slices.Contains(known, epoch) {
		t.Fatalf("a new stream has epoch %q, the earlier ones had %q", epoch, c.epochs)
	}
	c.exists = true
	c.epochs = append(known, epoch)
}

func (c *modelChannel) epoch() string {
	if len(c.epochs) == 0 {
		return ""
	}
	return c.epochs[len(c.epochs)-1]
}

func (c *modelChannel) position() channel.StreamPosition {
	return channel.StreamPosition{Offset: c.top, Epoch: c.epoch()}
}

func (m *model) publish(t *rapid.T) {
	name, c := m.pick(t)
	m.count++
	pub := modelPublication{Data: fmt.Sprint(m.count)}
	version := rapid.Uint64Range(0, 4).Draw(t, "version")
	opts := broker.PublishOptions{
		HistorySize:    rapid.IntRange(0, 5).Draw(t, "size"),
		HistoryTTL:     m.units(t, 0, 5, "ttl"),
		HistoryMetaTTL: m.units(t, 6, 12, "meta"),
		IdempotencyKey: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "key"),
		IdempotencyTTL: m.units(t, 1, 8, "key ttl"),
		VersionEpoch:   rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(t, "version epoch"),
		Delta:          rapid.Bool().Draw(t, "delta"),
	}
	got, err := m.f.broker.Publish(m.f.ctx, name, &channel.Publication{Data: []byte(pub.Data), Version: version}, opts)
	if err != nil {
		t.Fatal(err)
	}
	m.compare(t, "result", got, m.published(t, c, pub, version, opts, got.Position.Epoch))
}

func (m *model) published(t *rapid.T, c *modelChannel, pub modelPublication, version uint64, opts broker.PublishOptions, epoch string) (want broker.PublishResult) {
	if r, ok := c.results[opts.IdempotencyKey]; ok && r.until > m.now {
		return broker.PublishResult{Position: r.position, Suppressed: broker.SuppressIdempotency}
	}
	event := modelEvent{Delta: opts.Delta}
	if opts.HistorySize > 0 && opts.HistoryTTL > 0 {
		m.create(t, c, epoch)
		old := version > 0 && version <= c.version && (opts.VersionEpoch == "" || opts.VersionEpoch == c.versionEpoch)
		if !old || m.caps.SuppressedRenews {
			c.until, c.metaUntil = m.now+opts.HistoryTTL, m.now+opts.HistoryMetaTTL
		}
		want.Position = c.position()
		if old {
			want.Suppressed = broker.SuppressVersion
			return want
		}
		if version > 0 {
			c.version, c.versionEpoch = version, opts.VersionEpoch
		}
		if opts.Delta && len(c.stored) > 0 {
			event.Prev = c.stored[len(c.stored)-1]
		}
		c.top++
		pub.Offset = c.top
		c.stored = append(c.stored, pub)
		c.stored = c.stored[max(0, len(c.stored)-opts.HistorySize):]
		event.Epoch = c.epoch()
		want.Position = c.position()
	}
	event.Pub = pub
	if opts.IdempotencyKey != "" {
		c.results[opts.IdempotencyKey] = modelResult{want.Position, m.now + opts.IdempotencyTTL}
	}
	if c.subscribed {
		c.events = append(c.events, event)
	} else {
		c.missed[pub.Data] = true
	}
	return want
}

func (m *model) history(t *rapid.T) {
	name, c := m.pick(t)
	filter := broker.HistoryFilter{
		Limit:   rapid.IntRange(-1, 6).Draw(t, "limit"),
		Reverse: rapid.Bool().Draw(t, "reverse"),
		MetaTTL: m.units(t, 6, 12, "meta"),
	}
	if rapid.Bool().Draw(t, "since") {
		// Reversed reads since 0 or since more than top + 1 are undefined.
		since := rapid.Uint64Range(1, c.top+1).Draw(t, "offset")
		filter.Since = &channel.StreamPosition{Offset: since, Epoch: c.epoch()}
	}
	h, err := m.f.broker.History(m.f.ctx, name, filter)
	if err != nil {
		t.Fatal(err)
	}
	m.create(t, c, h.Top.Epoch)
	c.metaUntil = m.now + filter.MetaTTL
	got := []modelPublication{}
	for _, pub := range h.Publications {
		got = append(got, seen(pub))
	}
	m.compare(t, "history", got, c.read(filter))
	m.compare(t, "top", h.Top, c.position())
}

func (c *modelChannel) read(filter broker.HistoryFilter) []modelPublication {
	list := slices.Clone(c.stored)
	if filter.Reverse {
		slices.Reverse(list)
	}
	if filter.Since != nil {
		list = slices.DeleteFunc(list, func(pub modelPublication) bool {
			if filter.Reverse {
				return pub.Offset >= filter.Since.Offset
			}
			return pub.Offset <= filter.Since.Offset
		})
	}
	if filter.Limit >= 0 && filter.Limit < len(list) {
		list = list[:filter.Limit]
	}
	return list
}

func (m *model) remove(t *rapid.T) {
	name, c := m.pick(t)
	if err := m.f.broker.RemoveHistory(m.f.ctx, name); err != nil {
		t.Fatal(err)
	}
	c.stored = nil
}

func (m *model) subscribe(t *rapid.T) {
	name, c := m.pick(t)
	if err := m.f.broker.Subscribe(m.f.ctx, name); err != nil {
		t.Fatal(err)
	}
	c.subscribed = true
}

func (m *model) unsubscribe(t *rapid.T) {
	name, c := m.pick(t)
	m.compareEvents(t) // waits for the events of the subscription
	if err := m.f.broker.Unsubscribe(m.f.ctx, name); err != nil {
		t.Fatal(err)
	}
	if m.caps.Virtual {
		synctest.Wait()
	}
	c.subscribed = false
}

// advance passes a little more than whole units, so that no call comes at the very moment when something expires.
func (m *model) advance(t *rapid.T) {
	d := m.units(t, 1, 9, "time") + m.caps.Unit/1009
	m.caps.Advance(m.f, d)
	m.now += d
}

// compareEvents is run after every action.
func (m *model) compareEvents(t *rapid.T) {
	for _, name := range m.names {
		want := m.channels[name].events
		got := []modelEvent{}
		for _, e := range m.arrived(name, len(want)) {
			got = append(got, modelEvent{Pub: seen(e.Pub), Epoch: e.Epoch, Delta: e.Delta, Prev: seen(e.Prev)})
		}
		m.compare(t, "events", got, want)
	}
}

// arrived waits for n events. Publications from before the subscription do not count: they may still arrive through a
// cluster.
func (m *model) arrived(name string, n int) []event {
	if !m.caps.slow {
		return m.f.wait(name, n)
	}
	missed := m.channels[name].missed
	for late := 0; ; {
		events := slices.DeleteFunc(slices.Clone(m.f.wait(name, n+late)), func(e event) bool {
			return e.Pub != nil && missed[string(e.Pub.Data)]
		})
		if len(events) >= n {
			return events
		}
		late += n - len(events)
	}
}

func (m *model) compare(t *rapid.T, what string, got, want any) {
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (m *model) units(t *rapid.T, low, high int, label string) time.Duration {
	return m.f.units(rapid.IntRange(low, high).Draw(t, label))
}

func seen(pub *channel.Publication) modelPublication {
	if pub == nil {
		return modelPublication{}
	}
	return modelPublication{pub.Offset, string(pub.Data)}
}
