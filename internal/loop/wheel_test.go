package loop

import (
	"testing"

	"pgregory.net/rapid"
)

// alarm notes when it went off.
type alarm struct {
	timer Timer
	model *wheelModel
	id    int
}

func (a *alarm) Timer() *Timer { return &a.timer }
func (a *alarm) Tick()         { a.model.fired(a) }

// wheelModel is a wheel beside a map that says the same.
type wheelModel struct {
	*rapid.T
	wheel  wheel
	now    int64
	alarms []*alarm
	due    map[*alarm]int64
	// expected is due, or the time of setting if that was later.
	expected map[*alarm]int64
	ticks    int // in this advance
	// onTick is what the next alarm does when it goes off.
	onTick func()
}

func (m *wheelModel) set(a *alarm, at int64) {
	m.wheel.set(a, at)
	if delete(m.due, a); at != 0 {
		m.due[a], m.expected[a] = at, max(at, m.now)
	}
}

func (m *wheelModel) fired(a *alarm) {
	m.ticks++
	at, ok := m.due[a]
	switch {
	case !ok:
		m.Fatalf("alarm %d goes off without being set", a.id)
	case at > m.now:
		m.Fatalf("alarm %d goes off %d ns early", a.id, at-m.now)
	case a.timer.slot != 0:
		m.Fatalf("alarm %d is still set when it goes off", a.id)
	}
	delete(m.due, a)
	if f := m.onTick; f != nil {
		m.onTick = nil
		f()
	}
}

// checkOverdue checks, after an advance, that nothing is overdue.
func (m *wheelModel) checkOverdue() {
	for a := range m.due {
		if at := m.expected[a]; at <= m.now-wheelTick {
			m.Fatalf("alarm %d is %d ns late", a.id, m.now-at)
		}
	}
	m.check()
}

// advance goes on until nothing is due, a few alarms at a time, while time goes on
// as well and alarms are set and cleared in between.
func (m *wheelModel) advance(t *rapid.T, between func()) {
	most := rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "most")
	for {
		m.ticks = 0
		more := m.wheel.advance(m.now, most, new(any))
		if m.ticks > most {
			t.Fatalf("%d alarms went off, at most %d may", m.ticks, most)
		}
		if !more {
			break
		}
		if next := m.wheel.next(); next > m.now {
			t.Fatalf("next is %d ns away, but there is more", next-m.now)
		}
		if m.now++; rapid.Bool().Draw(t, "change meanwhile") {
			between()
		}
	}
	m.checkOverdue()
}

// check compares what the wheel knows with the map.
func (m *wheelModel) check() {
	if m.wheel.count != len(m.due) {
		m.Fatalf("%d timers are set, want %d", m.wheel.count, len(m.due))
	}
	// Who sleeps until next is at most a tick late.
	next := m.wheel.next()
	if (next == 0) != (len(m.due) == 0) {
		m.Fatalf("next is %d with %d timers", next, len(m.due))
	}
	for a := range m.due {
		if at := m.expected[a]; next > at+wheelTick {
			m.Fatalf("next is %d ns after alarm %d is due", next-at, a.id)
		}
		if a.timer.slot == 0 {
			m.Fatalf("alarm %d is not set", a.id)
		}
	}
}

// Random timers over virtual time are never early and at most a tick late,
// however far time moves at once, and whatever is set and cleared meanwhile.
func TestWheelAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &wheelModel{T: t, due: make(map[*alarm]int64), expected: make(map[*alarm]int64)}
		m.now = rapid.SampledFrom([]int64{1, wheelTick, 1_700_000_000e9 + 12345}).Draw(t, "start")
		m.wheel.advance(m.now, 1, new(any))
		for i := range rapid.IntRange(1, 20).Draw(t, "alarms") {
			m.alarms = append(m.alarms, &alarm{model: m, id: i})
		}
		draw := func() *alarm { return rapid.SampledFrom(m.alarms).Draw(t, "alarm") }
		// Within the round, beyond it, in the past, and right at the ticks.
		deadline := func() int64 {
			d := rapid.OneOf(
				rapid.Int64Range(-3*wheelTick, 3*wheelTick),
				rapid.Int64Range(0, 3*wheelSlots*wheelTick),
				rapid.Map(rapid.Int64Range(-2, 2*wheelSlots), func(n int64) int64 { return n*wheelTick - m.now%wheelTick }),
			).Draw(t, "in")
			return max(1, m.now+d)
		}
		change := func() {
			if a := draw(); rapid.Bool().Draw(t, "clear") {
				m.set(a, 0)
			} else {
				m.set(a, deadline())
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set":   func(*rapid.T) { m.set(draw(), deadline()) },
			"clear": func(*rapid.T) { m.set(draw(), 0) },
			"advance": func(t *rapid.T) {
				m.now += rapid.OneOf(
					rapid.Int64Range(0, 2*wheelTick),
					rapid.Int64Range(0, 2*wheelSlots*wheelTick),
				).Draw(t, "by")
				m.advance(t, change)
			},
			"sleep": func(t *rapid.T) {
				if at := m.wheel.next(); at > m.now {
					m.now = at
				}
				m.advance(t, change)
			},
			"when one goes off, set another":   func(*rapid.T) { a, at := draw(), deadline(); m.onTick = func() { m.set(a, at) } },
			"when one goes off, clear another": func(*rapid.T) { a := draw(); m.onTick = func() { m.set(a, 0) } },
			"":                                 func(*rapid.T) { m.check() },
		})
	})
}

func TestSetTimerAllocatesNothing(t *testing.T) {
	var w wheel
	a := new(alarm)
	w.advance(1, 1, new(any))
	w.set(a, 1e9)
	if n := testing.AllocsPerRun(100, func() { w.set(a, 0); w.set(a, 1e9) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSetTimer(b *testing.B) {
	var w wheel
	alarms := make([]alarm, 10_000)
	w.advance(1, 1, new(any))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		w.set(&alarms[i%len(alarms)], int64(i%1000+1)*1e7)
		i++
	}
}
