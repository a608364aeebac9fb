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

// held is what a channel with a window should do.
type held struct {
	window hub.Window
	since  int64 // when the first message came that is held, 0 if none is
	// released is the latest message that went out.
	released int64
}

// effective is the window within its limits.
func effective(w hub.Window) hub.Window {
	if w.Delay == 0 && w.Size == 0 {
		return w
	}
	if w.Delay == 0 {
		w.Delay = time.Second
	}
	if w.Size == 0 {
		w.Size = 64
	}
	return hub.Window{Delay: min(w.Delay, time.Minute), Size: min(w.Size, 64)}
}

// windowModel is a hub in turns that deliver all that is to be delivered.
type windowModel struct {
	model
	held map[string]*held
	came map[*member]int64 // what had been released then
}

func (m *windowModel) come(t *rapid.T, ch string) {
	if m.held[ch] == nil {
		m.held[ch] = &held{released: m.top[ch]}
	}
	m.add(t, ch)
	for s := range m.sets[ch] {
		if _, ok := m.came[s]; !ok {
			m.came[s] = m.held[ch].released
		}
	}
}

func (m *windowModel) setWindow(ch string, w hub.Window) {
	for s := range m.sets[ch] {
		m.held[ch].window = w
		m.hub.SetWindow(s, w)
		break
	}
}

// turn ends one, and checks that what is due was delivered, and nothing else.
func (m *windowModel) turn(t *rapid.T) {
	m.hub.Advance(m.now)
	for m.hub.Deliver(math.MaxInt) {
	}
	next := int64(0)
	for ch, c := range m.held {
		n := m.top[ch] - c.released
		if n > 0 && c.since == 0 {
			c.since = m.now
		}
		if w := effective(c.window); n >= int64(w.Size) || c.since+int64(w.Delay) <= m.now {
			c.released, c.since = m.top[ch], 0
		} else if due := c.since + int64(w.Delay); n > 0 && (next == 0 || due < next) {
			next = due
		}
		for s := range m.sets[ch] {
			want := c.released
			if m.came[s] == c.released {
				want = 0
			}
			if s.last != want {
				t.Fatalf("%q: a subscriber got the messages up to %d at %d, want %d; %+v", ch, s.last, m.now, want, *c)
			}
		}
	}
	if got := m.hub.Next(); got != next {
		t.Fatalf("the next window ends at %d, want %d", got, next)
	}
	if n := m.hub.Pending(); n != 0 {
		t.Fatalf("%d messages pending", n)
	}
}

// Messages are held until the first of delay and size is reached, and leave
// together then, whoever comes and goes and whatever happens to the window.
func TestWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &windowModel{model: *newModel(), held: make(map[string]*held), came: make(map[*member]int64)}
		m.now = 1
		names := []string{"a", "b", "c"}
		for _, ch := range names {
			m.come(t, ch)
			m.setWindow(ch, windows.Draw(t, "window of "+ch))
		}
		channels := rapid.SampledFrom(names)
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				m.come(t, channels.Draw(t, "channel"))
			},
			"go": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				for s := range maps.Clone(m.sets[ch]) {
					if m.remove(ch, s); len(m.sets[ch]) == 0 {
						delete(m.held, ch)
					} else if rapid.Bool().Draw(t, "the others stay") {
						break
					}
				}
			},
			"window": func(t *rapid.T) {
				m.setWindow(channels.Draw(t, "channel"), windows.Draw(t, "window"))
			},
			"publish": func(t *rapid.T) {
				ch := channels.Draw(t, "channel")
				for range rapid.SampledFrom([]int{1, 1, 1, 3, 70, 200}).Draw(t, "n") {
					m.publish(ch)
				}
			},
			"check": func(t *rapid.T) { m.check(channels.Draw(t, "channel")) },
			"wait": func(t *rapid.T) {
				m.now += rapid.SampledFrom([]int64{1, 2, 4, 5, 20, int64(time.Second), int64(time.Minute)}).Draw(t, "time")
			},
			"": m.turn,
		})
	})
}

// What is held while a batch goes round waits its own time.
func TestWindowBehindBatch(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	subs := make([]*member, 100)
	for i := range subs {
		subs[i] = &member{t: t}
		h.Add("ch", subs[i])
	}
	h.SetWindow(subs[0], hub.Window{Delay: 10})
	publish := func(id int64) { h.Publish(&hub.Message{Channel: "ch", ID: id}) }
	count := func(id int64) (n int) {
		for _, s := range subs {
			if s.last == id {
				n++
			}
		}
		return n
	}
	publish(1)
	h.Advance(100)
	if h.Deliver(50) || h.Next() != 110 || h.Pending() != 0 || count(0) != 100 {
		t.Fatalf("not held: next %d, pending %d", h.Next(), h.Pending())
	}
	h.Advance(110)
	if !h.Deliver(50) || h.Next() != 0 || h.Pending() != 1 || count(1) != 50 {
		t.Fatalf("not released: next %d, pending %d", h.Next(), h.Pending())
	}
	publish(2)
	h.Advance(112)
	h.Deliver(10)
	h.Advance(119)
	for h.Deliver(60) {
	}
	if h.Next() != 122 || count(1) != 100 {
		t.Fatalf("the second window ends at %d", h.Next())
	}
	h.Flush()
	h.Advance(120)
	if h.Deliver(1000); count(2) != 100 || h.Next() != 0 {
		t.Fatalf("%d got what was flushed", count(2))
	}
}

// A check follows the messages before it, and no window opens or fills up because of
// it: alone it goes at once.
func TestWindowsAndChecks(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	s := &recorder{}
	h.Add("ch", s)
	h.SetWindow(s, hub.Window{Delay: 10, Size: 3})
	check := func() { h.Publish(&hub.Message{Channel: "ch", Kind: hub.KindCheck}) }
	publish := func() { h.Publish(&hub.Message{Channel: "ch"}) }
	expect := func(now int64, want string) {
		t.Helper()
		h.Advance(now)
		for h.Deliver(10) {
		}
		if s.got != want || h.Pending() != 0 {
			t.Errorf("at %d: got %q, want %q; %d pending", now, s.got, want, h.Pending())
		}
		s.got = ""
	}
	check()
	expect(1, "c")
	if h.Next() != 0 {
		t.Error("a check opened a window")
	}
	publish()
	check()
	expect(2, "")
	check()
	publish()
	expect(11, "")
	expect(12, "pccp")
	check()
	publish()
	publish()
	expect(13, "")
	publish()
	check()
	expect(14, "cpppc")
	if s.held != 10 {
		t.Errorf("held for %d, want 10", s.held)
	}
	h.Remove(s)
	h.Add("ch", s)
	check()
	h.Remove(s)
	h.Add("ch", s)
	h.SetWindow(s, hub.Window{Delay: 10, Size: 3})
	publish()
	expect(15, "")
	expect(25, "p")
}

// What goes round does not count for the window of what follows.
func TestWindowBehindCheck(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	subs := make([]*recorder, 100)
	for i := range subs {
		subs[i] = &recorder{}
		h.Add("ch", subs[i])
	}
	h.SetWindow(subs[0], hub.Window{Delay: 10, Size: 3})
	h.Publish(&hub.Message{Channel: "ch", Kind: hub.KindCheck})
	h.Advance(1)
	h.Deliver(50)
	for range 3 {
		h.Publish(&hub.Message{Channel: "ch"})
	}
	for h.Deliver(50) {
	}
	for _, s := range subs {
		if s.got != "cppp" {
			t.Fatalf("got %q", s.got)
		}
	}
}

// recorder notes the kinds of what it gets.
type recorder struct {
	membership hub.Membership
	got        string
	held       time.Duration // of the latest message
}

func (s *recorder) Membership() *hub.Membership { return &s.membership }
func (s *recorder) DeliverAll(*hub.Batch) bool  { return false }
func (s *recorder) Deliver(d *hub.Delivery) {
	s.got += map[hub.Kind]string{hub.KindPublication: "p", hub.KindCheck: "c"}[d.Kind]
	s.held = d.WindowDelay
}

// Those whom a batch had not reached yet can all go, and so can everybody: what is
// published meanwhile is held back for those who stay, or for nobody.
func TestWindowBehindBatchOfNobody(t *testing.T) {
	for _, all := range []bool{false, true} {
		h := hub.New(new(sendqueue.Arena))
		var subs []*member
		for range 100 {
			s := &member{t: t}
			subs = append(subs, s)
			h.Add("ch", s)
		}
		h.SetWindow(subs[0], hub.Window{Delay: 10})
		h.Publish(&hub.Message{Channel: "ch", ID: 1})
		h.Advance(1)
		h.Deliver(50)
		h.Advance(11)
		h.Deliver(50)
		h.Publish(&hub.Message{Channel: "ch", ID: 2})
		due := int64(22)
		for _, s := range subs {
			if all || s.last == 0 {
				h.Remove(s)
			}
		}
		if all {
			due = 0
		}
		h.Advance(12)
		if h.Deliver(50); h.Next() != due || h.Pending() != 0 {
			t.Errorf("everybody has gone: %v; next %d, want %d; pending %d", all, h.Next(), due, h.Pending())
		}
	}
}

// A channel whose messages are enough does not wait for those that are due before.
func TestWindowFullFirst(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	subs := make(map[string]*member)
	for i, ch := range []string{"a", "b", "c"} {
		subs[ch] = &member{t: t}
		h.Add(ch, subs[ch])
		h.SetWindow(subs[ch], hub.Window{Delay: time.Duration(10 + i), Size: 2})
		h.Publish(&hub.Message{Channel: ch, ID: 1})
	}
	h.Advance(1)
	h.Deliver(100)
	h.Publish(&hub.Message{Channel: "c", ID: 2})
	h.Advance(2)
	if h.Deliver(100); subs["c"].last != 2 || subs["a"].last+subs["b"].last != 0 || h.Next() != 11 {
		t.Errorf("got %d, %d, %d; next %d", subs["a"].last, subs["b"].last, subs["c"].last, h.Next())
	}
}

// However many channels hold back, the memory for that is bounded: windows end
// early then.
func TestHeldMemory(t *testing.T) {
	const channels, payload, bound = 1000, 64 << 10, 16 << 20
	h := hub.New(new(sendqueue.Arena))
	got := 0
	var subs []*member
	for i := range channels {
		s := &member{t: t, then: func() { got++ }}
		subs = append(subs, s)
		h.Add(string(rune('a'+i)), s)
		h.SetWindow(s, hub.Window{Delay: time.Minute})
	}
	h.Advance(1)
	round := func(id int64) {
		for i := range channels {
			h.Publish(&hub.Message{Channel: string(rune('a' + i)), ID: id, Pub: &channel.Publication{Data: make([]byte, payload)}})
		}
		h.Advance(1)
		for h.Deliver(100) {
		}
		if id%2 == 0 {
			h.Flush()
			h.Advance(1)
			for h.Deliver(100) {
			}
			if n := int(id)*channels - got; n != 0 {
				t.Errorf("round %d: %d are held nevertheless", id, n)
			}
			return
		}
		if n := int(id)*channels - got; n < bound/payload-10 || n > bound/payload {
			t.Errorf("round %d: %d are held, want about %d", id, n, bound/payload)
		}
	}
	for id := range int64(5) {
		round(id + 1)
	}
	// Who leaves lets go of what was held for it.
	for _, s := range subs {
		h.Remove(s)
	}
	if h.Next() != 0 || h.Pending() != 0 {
		t.Errorf("next %d, pending %d without subscribers", h.Next(), h.Pending())
	}
	got = 0
	for i, s := range subs {
		s.last = 0
		h.Add(string(rune('a'+i)), s)
		h.SetWindow(s, hub.Window{Delay: time.Minute})
	}
	round(1)
}

// What went out is held no more, however often a channel holds back.
func TestHeldMemoryOfOne(t *testing.T) {
	h := hub.New(new(sendqueue.Arena))
	s := &member{t: t}
	h.Add("ch", s)
	h.SetWindow(s, hub.Window{Delay: 10})
	for now := int64(1); now < 5000; now += 10 {
		h.Publish(&hub.Message{Channel: "ch", ID: s.last + 1, Pub: &channel.Publication{Data: make([]byte, 64<<10)}})
		h.Advance(now)
		if h.Deliver(100); h.Next() != now+10 {
			t.Fatalf("not held at %d: next %d", now, h.Next())
		}
		h.Advance(now + 10)
		h.Deliver(100)
	}
}

// Windows need no memory of their own per message.
func TestWindowAllocBudget(t *testing.T) {
	h, m := hub.New(new(sendqueue.Arena)), &hub.Message{Channel: "ch"}
	s := &nobody{}
	h.Add("ch", s)
	h.SetWindow(s, hub.Window{Delay: 10, Size: 5})
	now := int64(1)
	if n := testing.AllocsPerRun(100, func() {
		for range 8 {
			h.Publish(m)
			h.Advance(now)
			h.Deliver(math.MaxInt)
			now++
		}
		now += 10
		h.Advance(now)
		h.Deliver(math.MaxInt)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if h.Next() != 0 || h.Pending() != 0 {
		t.Errorf("next %d, pending %d", h.Next(), h.Pending())
	}
}
