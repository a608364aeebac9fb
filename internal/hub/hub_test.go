package hub_test

import (
	"maps"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
)

// member is a subscriber that checks the order of what it gets: the messages of a
// channel are numbered from 1.
type member struct {
	t          interface{ Fatalf(string, ...any) }
	membership hub.Membership
	since      int64 // the latest message when it came
	last       int64 // the latest that it got
	gone       bool
	// then is called by Deliver.
	then func()
}

func (s *member) Membership() *hub.Membership { return &s.membership }
func (s *member) DeliverAll(*hub.Batch) bool  { return false }

func (s *member) Deliver(d *hub.Delivery) {
	switch {
	case s.gone:
		return // the rest of the batch in which it went
	case d.Kind == hub.KindCheck:
		if top := int64(d.Pub.Offset); s.last != top && (s.last != 0 || s.since < top) {
			s.t.Fatalf("a check behind message %d came behind %d", top, s.last)
		}
		return
	case s.last == 0 && d.ID > s.since+1, s.last != 0 && d.ID != s.last+1:
		s.t.Fatalf("got message %d after %d, having come after %d", d.ID, s.last, s.since)
	}
	s.last = d.ID
	if s.then != nil {
		s.then()
	}
}

// model is a hub as it should be.
type model struct {
	hub  *hub.Hub
	now  int64
	sets map[string]map[*member]bool
	top  map[string]int64
}

func newModel() *model {
	return &model{hub: hub.New(new(sendqueue.Arena)), sets: make(map[string]map[*member]bool), top: make(map[string]int64)}
}

func (m *model) publish(ch string) {
	m.top[ch]++
	m.hub.Publish(&hub.Message{Channel: ch, ID: m.top[ch]})
}

func (m *model) check(ch string) {
	top := &channel.Publication{Offset: uint64(m.top[ch])}
	m.hub.Publish(&hub.Message{Channel: ch, Kind: hub.KindCheck, Pub: top})
}

// windows are of all kinds: without, with one limit, with both.
var windows = rapid.Custom(func(t *rapid.T) hub.Window {
	return hub.Window{
		Delay: rapid.SampledFrom([]time.Duration{0, 0, 5, 20, 2 * time.Minute}).Draw(t, "delay"),
		Size:  rapid.SampledFrom([]int{0, 0, 1, 2, 10, 100}).Draw(t, "size"),
	}
})

func (m *model) add(t *rapid.T, ch string) {
	s := &member{t: t, since: m.top[ch]}
	m.hub.Add(ch, s)
	if m.sets[ch] == nil {
		m.sets[ch] = make(map[*member]bool)
	}
	m.sets[ch][s] = true
}

func (m *model) remove(ch string, s *member) {
	s.gone = true
	m.hub.Remove(s)
	m.hub.Remove(s) // sits nowhere any more
	if delete(m.sets[ch], s); len(m.sets[ch]) == 0 {
		delete(m.sets, ch)
	}
}

// A hub does what a map of sets does: every subscriber gets each message that is
// published while it is there, once and in order, however many come and go in
// between and within a delivery, however small the slices are, and whatever windows
// come and go.
func TestHubAgainstMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		channels := rapid.SampledFrom([]string{"a", "b", ""})
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				for range rapid.SampledFrom([]int{1, 1, 3, 200}).Draw(t, "n") {
					m.add(t, ch)
				}
			},
			"go": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				n := rapid.SampledFrom([]int{1, 2, 150}).Draw(t, "n")
				for s := range maps.Clone(m.sets[ch]) {
					if n--; n < 0 {
						break
					}
					m.remove(ch, s)
				}
			},
			"finish": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				for s := range m.sets[ch] {
					s.then = nil
					m.hub.Finish(s)
					if top := m.top[ch]; top > s.since && s.last != top {
						t.Fatalf("left with the messages up to %d of %d", s.last, top)
					}
					m.remove(ch, s)
					break
				}
			},
			"publish": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				leave := rapid.IntRange(0, 3).Draw(t, "one of so many leaves")
				i := 0
				for s := range m.sets[ch] {
					if i++; leave > 0 && i%leave == 0 {
						s.then = func() { m.remove(ch, s) }
					}
				}
				for range rapid.SampledFrom([]int{1, 1, 5, 40}).Draw(t, "n") {
					m.publish(ch)
				}
			},
			"check": func(t *rapid.T) { m.check(channels.Draw(t, "channel")) },
			"window": func(t *rapid.T) {
				for s := range m.sets[channels.Draw(t, "channel")] {
					m.hub.SetWindow(s, windows.Draw(t, "window"))
					break
				}
			},
			"wait": func(t *rapid.T) {
				m.now += rapid.Int64Range(1, 10).Draw(t, "time")
				m.hub.Advance(m.now)
			},
			"deliver": func(t *rapid.T) { m.hub.Deliver(rapid.IntRange(1, 300).Draw(t, "budget")) },
			"drain":   m.drain,
			"":        m.count,
		})
	})
}

// drain delivers the rest: nobody may lack anything then.
func (m *model) drain(t *rapid.T) {
	for m.hub.Deliver(100) {
	}
	for next := m.hub.Next(); next != 0; next = m.hub.Next() {
		if next > m.now {
			m.now = next
		}
		m.hub.Advance(m.now)
		for m.hub.Deliver(100) {
		}
	}
	if n := m.hub.Pending(); n != 0 {
		t.Fatalf("%d messages pending after everything", n)
	}
	for ch, set := range m.sets {
		for s := range set {
			if top := m.top[ch]; top > s.since && s.last != top {
				t.Fatalf("a subscriber of %q got the messages up to %d of %d", ch, s.last, top)
			}
		}
	}
}

func (m *model) count(t *rapid.T) {
	total, seen := 0, 0
	m.hub.Channels(func(ch string, n int) {
		if seen++; n != len(m.sets[ch]) {
			t.Fatalf("%q has %d subscribers, want %d", ch, n, len(m.sets[ch]))
		}
		total += n
	})
	if seen != len(m.sets) || total != m.hub.Subscribers() {
		t.Fatalf("%d channels with %d subscribers, want %d with %d", seen, total, len(m.sets), m.hub.Subscribers())
	}
}

// A slice ends soon after its budget, and a channel with many subscribers does not
// keep the others waiting.
func TestSlices(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	served := 0
	for range 10_000 {
		h.Add("big", &member{t: t, then: func() { served++ }})
	}
	small := &member{t: t}
	h.Add("small", small)
	h.Publish(&hub.Message{Channel: "big", ID: 1})
	h.Publish(&hub.Message{Channel: "small", ID: 1})
	if more := h.Deliver(100); !more || served != 100 || h.Pending() != 2 {
		t.Errorf("served %d with a budget of 100, more: %v", served, more)
	}
	h.Publish(&hub.Message{Channel: "big", ID: 2})
	if h.Deliver(100); served > 300 || small.last != 1 { // each of the second hundred gets both
		t.Errorf("served %d with a budget of 200; the small channel got %d", served, small.last)
	}
	for h.Deliver(math.MaxInt) {
	}
	if served != 20_000 {
		t.Errorf("served %d", served)
	}
}

// Who publishes while a message goes round does not wait for its end: everybody has
// each message when one round's worth of subscribers was served, and those that came
// meanwhile arrive together.
func TestRound(t *testing.T) {
	const subscribers, slice, slices = 10_000, 500, 20
	h := hub.New(new(sendqueue.Arena))
	members := make([]*member, subscribers)
	for i := range members {
		members[i] = &member{t: t}
		h.Add("ch", members[i])
	}
	for i := int64(1); i < 5*slices; i++ {
		h.Publish(&hub.Message{Channel: "ch", ID: i})
		// A batch costs a little more the larger it is.
		h.Deliver(slice * (1 + int(min(i, slices))/16))
		if i < slices {
			continue
		}
		for j, s := range members {
			if s.last <= i-slices {
				t.Fatalf("member %d has %d messages when %d were published", j, s.last, i)
			}
		}
	}
}

// Who leaves amid rounds gets what is still on its way, wherever it sits, and nobody else
// gets anything else because of that.
func TestFinishAmidRounds(t *testing.T) {
	const subscribers = 50
	for steps := int64(1); steps < 10; steps++ {
		for leaving := range subscribers {
			h := hub.New(new(sendqueue.Arena))
			members := make([]*member, subscribers)
			for i := range members {
				members[i] = &member{t: t}
				h.Add("ch", members[i])
			}
			for id := int64(1); id <= steps; id++ {
				h.Publish(&hub.Message{Channel: "ch", ID: id})
				h.Deliver(subscribers / 4)
			}
			h.Finish(members[leaving])
			h.Remove(members[leaving])
			if got := members[leaving].last; got != steps {
				t.Fatalf("%d of %d messages for member %d", got, steps, leaving)
			}
			for h.Deliver(subscribers / 4) {
			}
			for i, s := range members {
				if s.last != steps {
					t.Fatalf("%d of %d messages for member %d when %d had left", s.last, steps, i, leaving)
				}
			}
		}
	}
}

// Nobody gets more than 64 messages at once, whenever they came.
func TestMostAtOnce(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	got := 0
	for range 10 {
		h.Add("ch", &member{t: t, then: func() { got++ }})
	}
	for id := range int64(300) {
		h.Publish(&hub.Message{Channel: "ch", ID: id + 1})
		if id%30 == 0 {
			h.Deliver(1)
		}
		if got > 64 {
			t.Fatalf("%d messages at once", got)
		}
		got = 0
	}
	for more := true; more; got = 0 {
		if more = h.Deliver(1); got > 64 {
			t.Fatalf("%d messages at once", got)
		}
	}
}

// Delivery itself needs no memory.
func TestPublishAllocBudget(t *testing.T) {
	h, m := hub.New(new(sendqueue.Arena)), &hub.Message{Channel: "ch"}
	for range 1000 {
		h.Add("ch", &nobody{})
	}
	if n := testing.AllocsPerRun(10, func() { h.Publish(m); h.Deliver(math.MaxInt) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// nobody is a subscriber that does nothing but look.
type nobody struct {
	membership hub.Membership
	held       time.Duration // of the latest message
}

func (s *nobody) Membership() *hub.Membership { return &s.membership }
func (s *nobody) DeliverAll(*hub.Batch) bool  { return false }
func (s *nobody) Deliver(d *hub.Delivery)     { s.held = d.WindowDelay }
