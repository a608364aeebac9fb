package loop

// Timed is something with one deadline, such as a session.
type Timed interface {
	// Timer is the wheel's own note in the timed thing.
	Timer() *Timer
	// Tick is called once the deadline has passed. The timer is not set any more.
	Tick()
}

// Timer is a deadline of a wheel. The zero value is not set.
type Timer struct {
	_     [0]func() // not comparable; first, or it would take space
	at    int64
	slot  int32 // slot number plus one; 0 when not set
	index int32
}

const (
	wheelSlots = 512
	// wheelTick is the precision of deadlines: they are met up to this late.
	wheelTick = int64(50e6)
)

// keepSlot is the largest slot whose memory is kept when it becomes empty. Those who
// came at once have their first deadline at once, and never again.
const keepSlot = 64

// wheel is a hashed timing wheel: setting, moving and clearing a deadline is
// O(1) and needs no memory but a slice element, whatever the number of timers.
type wheel struct {
	slots [wheelSlots][]Timed
	// done is the last tick that was handled, but for the first rest timers of its
	// slot.
	done  int64
	rest  int
	count int
}

func tickOf(at int64) int64 { return (at + wheelTick - 1) / wheelTick }

// set moves t's deadline to at (nanoseconds); at 0 clears it.
func (w *wheel) set(t Timed, at int64) {
	tm := t.Timer()
	if tm.slot != 0 {
		w.clear(tm)
	}
	if at == 0 {
		return
	}
	tick := max(tickOf(at), w.done+1)
	slot := int(tick % wheelSlots)
	tm.at, tm.slot, tm.index = at, int32(slot)+1, int32(len(w.slots[slot]))
	w.slots[slot] = append(w.slots[slot], t)
	w.count++
}

func (w *wheel) clear(tm *Timer) {
	s := w.slots[tm.slot-1]
	last := len(s) - 1
	moved := s[last]
	s[tm.index] = moved
	moved.Timer().index = tm.index
	s[last] = nil
	s = s[:last]
	if last == 0 && cap(s) > keepSlot {
		s = nil
	}
	w.slots[tm.slot-1] = s
	tm.slot = 0
	w.count--
}

// tickCost is what a Tick, which mostly writes to a socket, costs in looks at timers
// whose round is a later one.
const tickCost = 32

// advance ticks what is due at now, as many as most at a time, and reports whether
// there is more. Timers that wait for their round count little, not nothing. What it
// ticks is noted in current.
func (w *wheel) advance(now int64, most int, current *any) (more bool) {
	budget := most * tickCost
	if w.rest > 0 && !w.handle(now, &budget, current) {
		return true
	}
	tick := now / wheelTick
	if w.done == 0 || tick-w.done > wheelSlots {
		// First turn, or a long sleep: one round sees every slot.
		w.done = max(w.done, tick-wheelSlots)
	}
	for w.done < tick {
		w.done++
		w.rest = len(w.slots[w.done%wheelSlots])
		if !w.handle(now, &budget, current) {
			return true
		}
	}
	return false
}

// handle ticks what is due in the rest of the slot of done, and reports false if the
// budget is used up before its end.
func (w *wheel) handle(now int64, budget *int, current *any) bool {
	slot := w.done % wheelSlots
	// Backwards, as a cleared timer is replaced by the last one. A Tick may set
	// and clear any timer, so look again each time.
	for ; w.rest > 0; w.rest-- {
		if *budget <= 0 {
			return false
		}
		*budget--
		i := w.rest - 1
		if i >= len(w.slots[slot]) {
			continue
		}
		t := w.slots[slot][i]
		if tm := t.Timer(); tm.at <= now {
			*budget -= tickCost
			w.clear(tm)
			*current = t
			t.Tick()
		}
	}
	return true
}

// next is the time at which advance has something to do, or 0 if never.
func (w *wheel) next() int64 {
	if w.count == 0 {
		return 0
	}
	if w.rest > 0 {
		return w.done * wheelTick
	}
	for i := int64(1); i <= wheelSlots; i++ {
		if len(w.slots[(w.done+i)%wheelSlots]) > 0 {
			return (w.done + i) * wheelTick
		}
	}
	return 0
}
