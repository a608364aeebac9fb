package loop

// Timed has one deadline.
type Timed interface {
	Timer() *Timer
	// Tick is called once the deadline has passed and is cleared.
	Tick()
}

// Timer is where a wheel notes a deadline. The zero value is no deadline.
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

// keepSlot: clients that came at the same time share only their first deadline, so a larger slot is rarely needed again.
const keepSlot = 64

// wheel is a hashed timing wheel: a change of a deadline is O(1) and needs no memory but a slice element.
type wheel struct {
	slots [wheelSlots][]Timed
	// done is the last tick that was begun, with the first rest timers of its slot still to be handled.
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

// tickCost is the cost of a Tick, which usually writes to a socket, in looks at timers that are due in a later round.
const tickCost = 32

// advance calls Tick of at most most due timers, and reports whether there are more. Timers of later rounds count, but
// little. It notes in current whose Tick it calls.
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

// handle calls Tick of the due timers in the rest of the slot of done, or reports false if the budget is used up.
func (w *wheel) handle(now int64, budget *int, current *any) bool {
	slot := w.done % wheelSlots
	// Backwards, because the last timer of the slot replaces one that is cleared. Look at the slot again each time,
	// because a Tick may set and clear any timer.
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
