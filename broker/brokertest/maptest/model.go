package maptest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// testModel compares a map with a model of plain maps and slices, at random.
func testModel(f *fixture) {
	rapid.Check(f, func(t *rapid.T) {
		f.begin()
		m := &model{f: f, entries: map[string]modelEntry{}}
		actions := map[string]func(*rapid.T){"change": m.change, "change2": m.change, "read": m.read, "clear": m.clear, "": m.compare}
		f.unit = time.Hour // nothing is due meanwhile
		if f.virtual {
			f.unit = 10 * time.Second // rapid ends a check after a day
			actions["advance"] = m.advance
		}
		t.Repeat(actions)
	})
}

type model struct {
	f       *fixture
	now     time.Duration
	count   int
	epoch   string // of the last change; empty if there was none
	old     []string
	top     uint64
	entries map[string]modelEntry
	stream  []string      // its newest changes
	until   time.Duration // when the stream is over
	meta    time.Duration // when top and epoch are over
	last    channel.MapOptions
	events  []string // that are to come
}

type modelEntry struct {
	text    string
	offset  uint64
	version uint64
	until   time.Duration
}

func (m *model) ends() {
	if m.until <= m.now {
		m.stream = nil
	}
	if m.epoch != "" && len(m.entries) == 0 && m.meta <= m.now {
		m.restart()
	}
}

func (m *model) restart() {
	if m.epoch != "" {
		m.old = append(m.old, m.epoch)
	}
	m.epoch, m.top, m.stream = "", 0, nil
	clear(m.entries)
}

func (m *model) change(t *rapid.T) {
	m.ends()
	m.count++
	pub := channel.Publication{
		Key: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key"), Removed: rapid.IntRange(0, 3).Draw(t, "removed") == 0,
		Version: rapid.Uint64Range(0, 3).Draw(t, "version"),
	}
	if !pub.Removed {
		pub.Data = fmt.Append(nil, m.count)
	}
	o := channel.MapOptions{
		StreamSize: rapid.IntRange(1, 5).Draw(t, "size"), StreamTTL: m.units(t, 1, 5, "ttl"), MetaTTL: m.units(t, 6, 9, "meta"),
		KeyTTL:     m.units(t, 0, 5, "key ttl"),
		KeyMode:    rapid.SampledFrom([]channel.KeyMode{"", "", channel.KeyIfNew, channel.KeyIfExists}).Draw(t, "mode"),
		RefreshTTL: rapid.Bool().Draw(t, "refresh"), MaxEntries: rapid.IntRange(-1, 4).Draw(t, "max"),
	}
	if rapid.IntRange(0, 3).Draw(t, "conditional") == 0 {
		o.Expected = &channel.StreamPosition{Offset: rapid.Uint64Range(0, m.top).Draw(t, "expected")}
	}
	want := m.changed(&pub, o)
	got := m.f.change(pub, o)
	if want == "" {
		if m.epoch == "" {
			m.epoch = got.Position.Epoch
			if m.epoch == "" || slices.Contains(m.old, m.epoch) {
				t.Fatalf("epoch %q, before %q", m.epoch, m.old)
			}
		}
		equal(t, "position", got.Position, channel.StreamPosition{Offset: m.top, Epoch: m.epoch})
	}
	equal(t, "suppressed", got.Suppressed, want)
}

func (m *model) changed(pub *channel.Publication, o channel.MapOptions) broker.SuppressReason {
	e, exists := m.entries[pub.Key]
	switch {
	case pub.Removed:
	case exists && pub.Version > 0 && pub.Version <= e.version:
		return broker.SuppressVersion
	case exists && o.KeyMode == channel.KeyIfNew:
		if o.RefreshTTL {
			e.until, m.meta = m.end(o.KeyTTL), m.end(o.MetaTTL)
			m.entries[pub.Key] = e
		}
		return channel.SuppressKeyExists
	case !exists && o.KeyMode == channel.KeyIfExists:
		return channel.SuppressKeyNotFound
	}
	if o.Expected != nil && o.Expected.Offset != e.offset {
		return channel.SuppressPositionMismatch
	}
	switch {
	case exists:
	case pub.Removed:
		return channel.SuppressKeyNotFound
	case o.MaxEntries > 0 && len(m.entries) >= o.MaxEntries:
		return channel.SuppressMapFull
	}
	m.top++
	change := *pub
	change.Offset = m.top
	if pub.Removed {
		delete(m.entries, pub.Key)
	} else {
		version := pub.Version
		if version == 0 {
			version = e.version
		}
		m.entries[pub.Key] = modelEntry{text(&change), m.top, version, m.end(o.KeyTTL)}
		m.last = o
	}
	m.remember(&change, o, m.now)
	m.meta = m.end(o.MetaTTL)
	return ""
}

func (m *model) remember(change *channel.Publication, o channel.MapOptions, at time.Duration) {
	m.events = append(m.events, text(change))
	m.stream = append(m.stream, text(change))
	m.stream = m.stream[max(0, len(m.stream)-o.StreamSize):]
	m.until = at + o.StreamTTL
}

func (m *model) end(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return 1 << 62
	}
	return m.now + ttl
}

// advance passes a little more than whole units, so that nothing is due at the very moment of a call, and entries that
// are due were removed.
func (m *model) advance(t *rapid.T) {
	d := m.units(t, 1, 9, "time") + m.f.unit/9
	to := m.now + d
	var due []string
	for _, key := range slices.Sorted(maps.Keys(m.entries)) {
		if m.entries[key].until <= to {
			due = append(due, key)
		}
	}
	// Those that are due at once go in any order: the engine's is taken.
	m.f.advance(float64(d) / float64(m.f.unit))
	for _, e := range m.f.events.Of(m.f.ch)[m.f.read+len(m.events):] {
		first := slices.MinFunc(due, func(a, b string) int { return int(m.entries[a].until - m.entries[b].until) })
		entry := m.entries[e.Pub.Key]
		if !slices.Contains(due, e.Pub.Key) || entry.until != m.entries[first].until {
			t.Fatalf("%s expired, due are %q", e.Pub.Key, due)
		}
		due = slices.DeleteFunc(due, func(key string) bool { return key == e.Pub.Key })
		delete(m.entries, e.Pub.Key)
		if m.until <= entry.until {
			m.stream = nil
		}
		m.top++
		m.remember(&channel.Publication{Key: e.Pub.Key, Removed: true, Offset: m.top}, m.last, entry.until)
		m.meta = max(m.meta, entry.until+m.last.MetaTTL)
	}
	if len(due) > 0 {
		t.Fatalf("%q did not expire", due)
	}
	m.now = to
}

func (m *model) read(t *rapid.T) {
	m.ends()
	got := []string{}
	cursor := ""
	for limit := rapid.IntRange(1, 5).Draw(t, "limit"); ; {
		s := m.f.state(channel.StateFilter{Limit: limit, Cursor: cursor})
		got = append(got, texts(s.Entries)...)
		equal(t, "top", s.Top.Offset, m.top)
		if m.epoch != "" && s.Top.Epoch != m.epoch || slices.Contains(m.old, s.Top.Epoch) {
			t.Fatalf("epoch %q, want %q, before %q", s.Top.Epoch, m.epoch, m.old)
		}
		cursor = s.Cursor
		if cursor == "" {
			break
		}
	}
	want := []string{}
	for _, key := range slices.Sorted(maps.Keys(m.entries)) {
		want = append(want, m.entries[key].text)
	}
	equal(t, "state", got, want)
	h, err := m.f.broker.History(m.f.Context(), m.f.ch, broker.HistoryFilter{Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	if m.epoch != "" { // else reading may create an empty stream
		equal(t, "stream", texts(h.Publications), m.stream)
	}
}

func (m *model) clear(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return
	}
	if err := m.f.maps.Clear(m.f.Context(), m.f.ch); err != nil {
		t.Fatal(err)
	}
	m.restart()
}

// compare is run after every action.
func (m *model) compare(*rapid.T) {
	m.f.wantEvents(m.events...)
	m.events = nil
}

func (m *model) units(t *rapid.T, low, high int, label string) time.Duration {
	return time.Duration(rapid.IntRange(low, high).Draw(t, label)) * m.f.unit
}
