package hub_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
)

// chooser gets the publications whose tag it wants, as patches of the one that it got before.
type chooser struct {
	framer     *envelope
	membership hub.Membership
	wants      map[string]bool
	last       uint64 // offset of what it got last in this epoch
	epoch      string
	data       string
	fail       func(format string, a ...any)
	// full, patched and based count what it got.
	full, patched, based int
	bytes                int
	fresh                bool // it does not compare, because the test measures
}

func (s *chooser) Membership() *hub.Membership { return &s.membership }
func (s *chooser) DeliverAll(*hub.Batch) bool  { return false }

func (s *chooser) Deliver(d *hub.Delivery) {
	if !s.wants[d.Pub.Tags["t"]] {
		d.Filtered++
		return
	}
	if d.Epoch != s.epoch {
		s.epoch, s.last = d.Epoch, 0
	}
	extra, on := d.Resume(&s.membership, s.last)
	frame, err := d.FrameOn(on, s.framer, hub.Escaped|extra)
	if err != nil {
		s.fail("%v", err)
	}
	s.last = d.Pub.Offset
	s.bytes += len(frame)
	switch {
	case extra == 0:
		s.full++
	case on == nil:
		s.patched++
	default:
		s.based++
	}
	if s.fresh {
		return
	}
	p := s.framer.open(s, frame, 0).Pub
	got := string(p.Data)
	if p.Delta {
		data, err := fossiltest.Apply([]byte(s.data), p.Data)
		if err != nil {
			s.fail("patch of %d on %q: %v", p.Offset, s.data, err)
		}
		got = string(data)
	}
	if got != string(d.Pub.Data) {
		s.fail("publication %d is %q, want %q", p.Offset, got, d.Pub.Data)
	}
	s.data = got
}

const filler = "the quick brown fox jumps over the lazy dog, and the lazy dog does not mind at all"

// A patch builds on what its subscriber got last, however subscribers come and go, whatever they choose,
// and however the deliveries are cut in pieces.
func TestBasesAreWhatSubscribersHave(t *testing.T) {
	var based int
	check := func() {
		rapid.Check(t, func(t *rapid.T) {
			arena := new(sendqueue.Arena)
			h := hub.New(arena)
			tags := rapid.SampledFrom([]string{"a", "b", "c", "d"})
			var subs []*chooser
			framers := []*envelope{{encoding: protocol.Protobuf}, {encoding: protocol.Protobuf, dashes: 2}}
			offset, epoch := uint64(0), 0
			var prev *channel.Publication
			var waiting bool
			t.Repeat(map[string]func(*rapid.T){
				"come": func(t *rapid.T) {
					s := &chooser{framer: framers[len(subs)%2], wants: make(map[string]bool), fail: t.Fatalf}
					for range rapid.IntRange(1, 3).Draw(t, "tags") {
						s.wants[tags.Draw(t, "tag")] = true
					}
					subs = append(subs, s)
					h.Add("ch", s)
				},
				"go": func(t *rapid.T) {
					if len(subs) == 0 {
						t.Skip()
					}
					i := rapid.IntRange(0, len(subs)-1).Draw(t, "who")
					based += subs[i].based
					h.Remove(subs[i])
					subs[i] = subs[len(subs)-1]
					subs = subs[:len(subs)-1]
				},
				"publish": func(t *rapid.T) {
					if rapid.IntRange(0, 30).Draw(t, "new epoch") == 0 {
						offset, prev = 0, nil
						epoch++
					}
					offset++
					p := &channel.Publication{
						Offset: offset, Tags: map[string]string{"t": tags.Draw(t, "tag")},
						Data: fmt.Appendf(nil, "%d %s %d", epoch, filler, offset*uint64(1+epoch)),
					}
					m := &hub.Message{Channel: "ch", Pub: p, Epoch: fmt.Sprint(epoch)}
					if rapid.IntRange(0, 5).Draw(t, "delta") > 0 {
						m.Prev = prev
					}
					prev = p
					h.Publish(m)
					waiting = true
				},
				"deliver": func(t *rapid.T) {
					waiting = h.Deliver(rapid.IntRange(1, 12).Draw(t, "budget"))
					h.Forget()
					arena.Reset()
				},
				"": func(*rapid.T) {
					for _, s := range subs {
						s.fail = t.Fatalf
					}
				},
			})
			if waiting {
				h.Deliver(math.MaxInt)
			}
			for _, s := range subs {
				based += s.based
			}
		})
	}
	check()
	for i := 0; based == 0 && i < 100; i++ { // a few histories may have none
		check()
	}
	if based == 0 {
		t.Error("nobody got a patch across what it skipped")
	}
}

// stage is a channel with subscribers of one tag each.
type stage struct {
	h      *hub.Hub
	arena  *sendqueue.Arena
	subs   []*chooser
	framer *envelope
	offset uint64
	prev   *channel.Publication
	m      hub.Message
}

func newStage(t *testing.T, groups, each int) *stage {
	s := &stage{arena: new(sendqueue.Arena), framer: &envelope{encoding: protocol.Protobuf}}
	s.h = hub.New(s.arena)
	s.prev = &channel.Publication{}
	for range each {
		for g := range groups {
			sub := &chooser{framer: s.framer, wants: map[string]bool{fmt.Sprint(g): true}, fail: t.Fatalf}
			s.subs = append(s.subs, sub)
			s.h.Add("ch", sub)
		}
	}
	return s
}

func (s *stage) publish(p *channel.Publication) {
	s.offset++
	p.Offset = s.offset
	s.m.Channel, s.m.Pub, s.m.Prev = "ch", p, s.prev
	s.h.Publish(&s.m)
	s.h.Deliver(math.MaxInt)
	s.h.Forget()
	s.arena.Reset()
	s.prev = p
}

// round publishes once for each group.
func (s *stage) round(groups int) {
	for g := range groups {
		s.publish(&channel.Publication{Tags: map[string]string{"t": fmt.Sprint(g)}, Data: fmt.Appendf(nil, "%s %d", filler, s.offset)})
	}
}

// Subscribers with the same base share the patch, which is made once.
func TestPatchesAreShared(t *testing.T) {
	s := newStage(t, 10, 20)
	s.round(10)
	s.framer.framed.Store(0)
	s.round(10)
	for i, sub := range s.subs {
		if sub.full != 1 || sub.based != 1 {
			t.Errorf("subscriber %d: %d in full, %d patches", i, sub.full, sub.based)
		}
	}
	if n := s.framer.framed.Load(); n != 10 {
		t.Errorf("%d frames for 10 publications", n)
	}
	if n := s.h.Bases(); n != 10 {
		t.Errorf("%d bases for 10 groups", n)
	}
	for _, sub := range s.subs {
		s.h.Remove(sub)
	}
	if n := s.h.Bases(); n != 0 {
		t.Errorf("%d bases for nobody", n)
	}
}

// There are not more bases than the bounds allow; who has none gets the publication in full.
func TestBasesAreBounded(t *testing.T) {
	const groups = 200
	s := newStage(t, groups, 1)
	for range 20 {
		if s.round(groups); s.h.Bases() > 64 {
			t.Fatalf("%d bases", s.h.Bases())
		}
	}
	full, based := 0, 0
	for _, sub := range s.subs {
		full, based = full+sub.full, based+sub.based
	}
	if want := groups * 20; full+based != want || based < want/10 {
		t.Errorf("%d in full, %d patches of %d", full, based, want)
	}
	s = newStage(t, 20, 1)
	large := []byte(strings.Repeat("x", 2<<20))
	for g := range 20 {
		s.publish(&channel.Publication{Tags: map[string]string{"t": fmt.Sprint(g)}, Data: large})
		if n := s.h.BaseBytes(); n > 16<<20 {
			t.Fatalf("bases of %d bytes", n)
		}
	}
	s = newStage(t, 1, 1)
	s.publish(&channel.Publication{Tags: map[string]string{"t": "0"}, Data: make([]byte, 17<<20)})
	if n := s.h.Bases(); n != 0 {
		t.Errorf("%d bases, one too large", n)
	}
}

// raceEnabled is set under the race detector, which has pools forget.
var raceEnabled bool

// Bases allocate nothing once there were as many before.
func TestBasesAllocBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget")
	}
	s := newStage(t, 4, 5)
	for _, sub := range s.subs {
		sub.fresh = true
	}
	var pubs [8]channel.Publication
	for i := range pubs {
		pubs[i] = channel.Publication{Tags: map[string]string{"t": fmt.Sprint(i % 4)}, Data: fmt.Appendf(nil, "%s %d", filler, i)}
	}
	round := func() {
		for i := range pubs {
			s.publish(&pubs[i])
		}
	}
	for range 3 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations for %d publications", n, len(pubs))
	}
}

// BenchmarkFilteredDelta is a publication for 1,000 subscribers that want one of ten tags, of which each
// comes after nine others.
func BenchmarkFilteredDelta(b *testing.B) {
	t := new(testing.T)
	s := newStage(t, 10, 100)
	for _, sub := range s.subs {
		sub.fresh = true
	}
	var pubs [20]channel.Publication
	for i := range pubs {
		pubs[i] = channel.Publication{Tags: map[string]string{"t": fmt.Sprint(i % 10)}, Data: fmt.Appendf(nil, "%s %d", strings.Repeat(filler, 5), i)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.publish(&pubs[i%len(pubs)])
	}
	bytes, messages := 0, 0
	for _, sub := range s.subs {
		bytes, messages = bytes+sub.bytes, messages+sub.full+sub.patched+sub.based
	}
	b.ReportMetric(float64(bytes)/float64(messages), "bytes/message")
}

// Fatalf implements what envelope.open reports to.
func (s *chooser) Fatalf(format string, a ...any) { s.fail(format, a...) }
