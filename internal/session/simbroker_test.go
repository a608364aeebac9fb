package session_test

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
)

// stream is the broker's side of one simulated channel. Beside what a broker
// stores, it remembers everything that was ever published, which is what
// subscribers are judged by.
type stream struct {
	name  string
	id    int64
	index int
	cache bool
	size  int // entries kept

	incarnation int
	epoch       string
	top         uint64
	entries     []*channel.Publication
	truth       map[string][]*channel.Publication // by epoch; offset n is at n-1
	unstored    map[string]bool                   // payloads without offset

	transit []*hub.Message // on their way from the broker to the node
	checks  []*hub.Message // tops that were read, but have not followed yet
	routed  int            // subscriptions that the broker holds for the node
	present map[string]int
	joined  map[string]bool
}

func newStream(index int, r *rand.Rand) *stream {
	s := &stream{
		name: "ch" + strconv.Itoa(index), id: int64(index + 1), index: index,
		cache: r.IntN(4) == 0, size: 1 + r.IntN(12),
		truth: make(map[string][]*channel.Publication), unstored: make(map[string]bool),
		present: make(map[string]int), joined: make(map[string]bool),
	}
	s.recreate()
	return s
}

// recreate is what happens when the meta TTL has passed: a new incarnation.
func (s *stream) recreate() {
	s.incarnation++
	s.epoch = s.name + "." + strconv.Itoa(s.incarnation)
	s.top, s.entries = 0, nil
}

// publish adds a publication; without history it gets no offset.
func (s *stream) publish(data []byte, tags map[string]string, now int64, stored, withPrev bool) {
	p := &channel.Publication{Data: data, Tags: tags, Time: now / int64(time.Millisecond)}
	m := &hub.Message{Channel: s.name, ID: s.id, Pub: p}
	if stored {
		if n := len(s.entries); n > 0 && withPrev {
			m.Prev = s.entries[n-1]
		}
		s.top++
		p.Offset, m.Epoch = s.top, s.epoch
		s.entries = append(s.entries, p)
		if over := len(s.entries) - s.size; over > 0 {
			s.entries = s.entries[over:]
		}
		s.truth[s.epoch] = append(s.truth[s.epoch], p)
	} else {
		s.unstored[string(data)] = true
	}
	if s.routed > 0 {
		s.transit = append(s.transit, m)
	}
}

// since is a forward read, latest a backward one; limit < 0 for all.
func (s *stream) since(offset uint64, limit int) []*channel.Publication {
	var out []*channel.Publication
	for _, p := range s.entries {
		if p.Offset > offset && (limit < 0 || len(out) < limit) {
			out = append(out, p)
		}
	}
	return out
}

func (s *stream) latest(limit int) []*channel.Publication {
	var out []*channel.Publication
	for i := len(s.entries) - 1; i >= 0 && (limit < 0 || len(out) < limit); i-- {
		out = append(out, s.entries[i])
	}
	return out
}

func (s *stream) position() channel.StreamPosition {
	return channel.StreamPosition{Offset: s.top, Epoch: s.epoch}
}

// complete tells whether every publication in (offset, top] is still stored.
func (s *stream) complete(offset uint64) bool {
	if offset >= s.top {
		return offset == s.top
	}
	n := len(s.entries)
	return n > 0 && s.entries[0].Offset <= offset+1 && s.entries[n-1].Offset == s.top
}

// payloads are similar to each other, so that patches are worth it, and hold
// characters of which patches can take a part.
var phrases = []string{
	"the quick brown fox jumps over the lazy dog, again and again",
	"der schnelle braune Fuchs springt über den faulen Hund – öfter und öfter",
	"быстрая коричневая лиса прыгает через ленивую собаку",
	"x", "🦊🐶 🦊🐱 🦊🐭 and what else there may be in a long and winding text",
}

func payload(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, 160)
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	if r.IntN(8) == 0 {
		b = append(b, '\n')
	}
	b = append(b, `,"text":"`...)
	b = append(b, phrases[n/32%len(phrases)]...)
	return append(b, `"}`...)
}

// asSeen is a payload as a JSON connection shows it outside of delta.
func asSeen(data []byte) []byte { return bytes.ReplaceAll(data, []byte{'\n'}, nil) }
