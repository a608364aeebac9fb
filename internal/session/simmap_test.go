package session_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
)

// simMap is the broker's side of one simulated map. Beside what a broker stores, it remembers every change
// that was ever made, which is what subscribers are judged by.
type simMap struct {
	name  string
	id    int64
	index int
	size  int // changes kept
	keys  int
	// serverFilter and withDelta are what the server does with subscriptions.
	serverFilter, withDelta bool
	opts                    channel.MapSubscription

	incarnation int
	epoch       string // of an ephemeral map: always empty
	// top counts the changes. Those of an ephemeral map have no offset; their number is a tag.
	top     uint64
	entries map[string]*channel.Publication
	stream  []*channel.Publication
	truth   map[string][]*channel.Publication // by epoch; change n is at n-1
	// bases has the changes that may be sent as patches.
	bases map[*channel.Publication]bool

	ways    [2]way // to each node
	present map[string]int
	joined  map[string]bool
}

// way is how the changes of a map come to one node: in their order.
type way struct {
	transit []*hub.Message
	checks  []*hub.Message // tops that were read, but have not followed yet
	routed  int            // subscriptions that the broker holds for the node
	// suspect is set when something may be lost of which the node has not been told yet.
	suspect bool
	// lost are changes of an ephemeral map that never came, with the round in which the node heard of it (0:
	// it has not yet); taken are those that came, with the round in which they did.
	lost, taken map[uint64]uint32
	// latest is the position of the change that came last, of a map with a stream.
	latest channel.StreamPosition
}

func newSimMap(index int, r *rand.Rand) *simMap {
	s := &simMap{
		name: "m" + strconv.Itoa(index), id: int64(index + 1), index: index,
		size: 1 + r.IntN(40), keys: 1 + r.IntN(14), serverFilter: r.IntN(4) == 0, withDelta: r.IntN(3) > 0,
		truth: make(map[string][]*channel.Publication),
		bases: make(map[*channel.Publication]bool), present: make(map[string]int), joined: make(map[string]bool),
	}
	s.opts = channel.MapSubscription{
		Kind: channel.MapData, Ephemeral: r.IntN(3) == 0, MinPageSize: 1, MaxPageSize: 1 + r.IntN(12),
		PageSize: 1 + r.IntN(5), LiveLimit: r.IntN(3) * (1 + r.IntN(8)),
		CatchUpTimeout: []time.Duration{-1, 0, 2 * time.Second, 12 * time.Second}[r.IntN(4)],
	}
	for n := range s.ways {
		s.ways[n].lost, s.ways[n].taken = make(map[uint64]uint32), make(map[uint64]uint32)
	}
	s.recreate()
	return s
}

func (s *simMap) position() channel.StreamPosition {
	if s.opts.Ephemeral {
		return channel.StreamPosition{}
	}
	return channel.StreamPosition{Offset: s.top, Epoch: s.epoch}
}

// recreate is what a clear does, or a loss of all data. In the truth about an ephemeral map it is a change
// without a key.
func (s *simMap) recreate() {
	s.entries, s.stream = make(map[string]*channel.Publication), nil
	if s.incarnation++; s.opts.Ephemeral {
		s.top++
		s.truth[""] = append(s.truth[""], &channel.Publication{})
		return
	}
	s.epoch, s.top = s.name+"."+strconv.Itoa(s.incarnation), 0
}

// key names one of the map's keys.
func (s *simMap) key(n int) string { return fmt.Sprintf("k%02d", n) }

// tags of a key; now and then others, so that an entry leaves or enters what a filter shows.
func (s *simMap) tags(r *rand.Rand, n int) map[string]string {
	if r.IntN(8) == 0 {
		n = r.IntN(12)
	}
	return map[string]string{"t": []string{"x", "y"}[n%2], "u": strconv.Itoa(n % 3)}
}

// change sets an entry, or removes it, at the time now. A removal without tags has those of the entry.
func (s *simMap) change(p *channel.Publication, now int64, withPrev bool) {
	prev := s.entries[p.Key]
	if p.Removed && p.Tags == nil {
		p.Tags = prev.Tags
	}
	s.top++
	p.Time = now / int64(time.Millisecond)
	if s.opts.Ephemeral {
		p.Tags = maps.Clone(p.Tags)
		p.Tags["n"] = strconv.FormatUint(s.top, 10)
		prev = nil
	} else {
		p.Offset = s.top
		s.stream = append(s.stream, p)
		s.stream = s.stream[max(0, len(s.stream)-s.size):]
	}
	if s.entries[p.Key] = p; p.Removed {
		delete(s.entries, p.Key)
	}
	s.truth[s.epoch] = append(s.truth[s.epoch], p)
	s.bases[p] = withPrev && prev != nil && !p.Removed
	for n := range s.ways {
		m := &hub.Message{Channel: s.name, ID: s.id, Pub: p, Epoch: s.epoch}
		if withPrev {
			m.Prev = prev
		}
		if w := &s.ways[n]; w.routed > 0 {
			w.transit = append(w.transit, m)
		}
	}
}

// state and history are what a broker reads.
func (s *simMap) state(f channel.StateFilter) channel.State {
	st := channel.State{Top: s.position(), Count: len(s.entries)}
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		if key <= f.Cursor {
			continue
		}
		if len(st.Entries) == f.Limit {
			st.Cursor = st.Entries[f.Limit-1].Key
			break
		}
		st.Entries = append(st.Entries, s.entries[key])
	}
	return st
}

func (s *simMap) history(f channel.HistoryFilter) channel.History {
	h := channel.History{Top: s.position()}
	for _, p := range s.stream {
		if p.Offset > f.Since.Offset && len(h.Publications) < f.Limit {
			h.Publications = append(h.Publications, p)
		}
	}
	return h
}

// continues tells whether everything behind a position is still in the stream.
func (s *simMap) continues(at channel.StreamPosition) bool {
	return at.Epoch == s.epoch && at.Offset <= s.top &&
		(at.Offset == s.top || len(s.stream) > 0 && s.stream[0].Offset <= at.Offset+1)
}

// crash loses what is on its way to the nodes.
func (s *simMap) crash() {
	for n := range s.ways {
		w := &s.ways[n]
		for _, m := range w.transit {
			w.lose(m)
		}
		w.transit, w.suspect = nil, true
	}
}

// lose notes that a change does not reach the node.
func (w *way) lose(m *hub.Message) {
	w.suspect = true
	if m.Kind == hub.KindPublication && m.Pub.Offset == 0 {
		w.lost[number(m.Pub.Tags)] = 0
	}
}

// excuses tells whether change i may be missing before change n: it is lost, and the node has not heard of that
// when n came. Otherwise the subscriber has to be told before, unless n was in the buffer when it went live,
// after the change number live.
func (w *way) excuses(i, n, live uint64) bool {
	heard, lost := w.lost[i]
	return lost && (heard == 0 || n <= live || w.taken[n] < heard)
}

// number of a change of an ephemeral map.
func number(tags map[string]string) uint64 {
	n, err := strconv.ParseUint(tags["n"], 10, 64)
	if err != nil {
		panic(violation("a change without its number"))
	}
	return n
}

// replica is a map as a subscriber behind filters has to see it, made from the truth.
type replica struct {
	s      *simMap
	epoch  string
	offset uint64
	passes func(tags map[string]string) bool
	last   map[string]*channel.Publication // by key: the last change, and the last one that passed
	passed map[string]*channel.Publication
}

func (s *simMap) replica(epoch string, passes func(map[string]string) bool) *replica {
	return &replica{
		s: s, epoch: epoch, passes: passes,
		last: make(map[string]*channel.Publication), passed: make(map[string]*channel.Publication),
	}
}

// advance makes the changes up to an offset.
func (r *replica) advance(to uint64) {
	for ; r.offset < to; r.offset++ {
		p := r.s.truth[r.epoch][r.offset]
		if p.Key == "" { // cleared
			clear(r.last)
			clear(r.passed)
			continue
		}
		if r.last[p.Key] = p; r.passes(p.Tags) {
			r.passed[p.Key] = p
		}
	}
}

// differs says in which key a subscriber's map is wrong; empty if it is right. If the last change of a key
// did not pass the filter, the subscriber may have the last value that did, or nothing.
func (r *replica) differs(has map[string][]byte, show func([]byte) []byte) string {
	for key, last := range r.last {
		passed := r.passed[key]
		got, there := has[key]
		switch set := passed != nil && !passed.Removed; {
		case there && !set:
			return fmt.Sprintf("%s is %q, and should not be there", key, got)
		case !there && set && passed == last:
			return fmt.Sprintf("%s is not there, want %q", key, passed.Data)
		case there && !bytes.Equal(got, show(passed.Data)):
			return fmt.Sprintf("%s is %q, want %q", key, got, passed.Data)
		}
	}
	for key := range has {
		if r.last[key] == nil {
			return key + " never was there"
		}
	}
	return ""
}

// Filters of a client and of the server.
var (
	clientFilter = &protocol.FilterNode{Key: "t", Cmp: "eq", Val: "x"}
	serverFilter = &protocol.FilterNode{Key: "u", Cmp: "neq", Val: "2"}
)
