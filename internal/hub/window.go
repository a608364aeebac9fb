package hub

import (
	"container/heap"
	"time"
)

// Window gathers messages until Delay has passed since the first one, or until there are Size. The zero Window gathers
// none.
type Window struct {
	Delay time.Duration
	Size  int
	// Latest makes Batch.Newest leave out the publications that were replaced meanwhile.
	Latest bool
}

const (
	// sizeDelay is for a window without a delay, as the last messages of a burst must not wait for ever.
	maxDelay  = time.Minute
	sizeDelay = time.Second
	// Beyond maxWaitingBytes in a hub, windows end early.
	maxWaitingBytes = 16 << 20
	messageWeight   = 256
	atOnce          = -1
)

// More than the maxBatch messages that a subscriber gets at once need not wait.
func (w Window) within() Window {
	switch {
	case w.Delay <= 0 && w.Size <= 0:
		return Window{}
	case w.Delay <= 0:
		w.Delay = sizeDelay
	case w.Size <= 0:
		w.Size = maxBatch
	}
	return Window{Delay: min(w.Delay, maxDelay), Size: min(w.Size, maxBatch), Latest: w.Latest}
}

// SetWindow sets the window of the channel of s until its last subscriber has gone, also for messages that wait.
func (h *Hub) SetWindow(s Subscriber, win Window) {
	g := s.Membership().group
	win = win.within()
	old := h.windows[g]
	if g == nil || win == old {
		return
	}
	if win == (Window{}) {
		delete(h.windows, g)
	} else {
		if h.windows == nil {
			h.windows = make(map[*group]Window)
		}
		h.windows[g] = win
	}
	w := g.sweep
	if w == nil {
		return
	}
	w.window = win
	if w.due > 0 {
		w.due += int64(win.Delay - old.Delay)
	}
	if w.heapIndex != 0 {
		if w.counted() >= win.Size {
			w.due = atOnce
		}
		heap.Fix(&h.waiting, w.heapIndex-1)
	}
}

// Advance sets the time, in nanoseconds, at which windows end.
func (h *Hub) Advance(now int64) {
	h.now = now
	for len(h.waiting) > 0 && h.waiting[0].due <= now {
		w := h.waiting[0]
		h.endWait(w)
		w.due = atOnce
		h.pending += len(w.next)
		h.active = append(h.active, w)
	}
}

// Next is when the first window ends; 0: nothing waits.
func (h *Hub) Next() int64 {
	if len(h.waiting) == 0 {
		return 0
	}
	return h.waiting[0].due
}

// Flush ends all windows by the next Advance.
func (h *Hub) Flush() {
	for _, w := range h.waiting {
		w.due = atOnce
	}
}

// counted does not count checks, which neither open a window nor fill it.
func (w *sweep) counted() int { return len(w.next) - w.checks }

// wait makes w wait if its window is open and no batch is under way.
func (h *Hub) wait(w *sweep) bool {
	if w.window == (Window{}) || w.counted() == 0 || len(w.group.subs()) == 0 {
		return false
	}
	if w.due == 0 {
		w.due = h.now + int64(w.window.Delay)
	}
	if len(w.batch.list) > 0 || w.due <= h.now || w.counted() >= w.window.Size || h.waitingBytes >= maxWaitingBytes {
		return false
	}
	h.pending -= len(w.next)
	for _, m := range w.next {
		w.weight += m.weight()
	}
	h.waitingBytes += w.weight
	heap.Push(&h.waiting, w)
	return true
}

func (h *Hub) addWaiting(w *sweep, m *Message) {
	n := m.weight()
	w.weight += n
	h.waitingBytes += n
	if w.due != atOnce && (w.counted() >= w.window.Size || h.waitingBytes > maxWaitingBytes) {
		w.due = atOnce
		heap.Fix(&h.waiting, w.heapIndex-1)
	}
}

func (h *Hub) drop(w *sweep) {
	h.endWait(w)
	for _, m := range w.next {
		m.done()
	}
	clear(w.next)
	w.next = w.next[:0]
	h.release(w)
}

func (h *Hub) endWait(w *sweep) {
	heap.Remove(&h.waiting, w.heapIndex-1)
	h.waitingBytes -= w.weight
	w.weight = 0
}

func (m *Message) weight() int {
	n := messageWeight
	if m.Pub != nil {
		n += len(m.Pub.Data)
	}
	if m.Info != nil {
		n += len(m.Info.ConnInfo) + len(m.Info.ChanInfo)
	}
	return n
}

type queue []*sweep

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = i+1, j+1
}

func (q *queue) Push(x any) {
	w := x.(*sweep)
	*q = append(*q, w)
	w.heapIndex = len(*q)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	w.heapIndex = 0
	return w
}
