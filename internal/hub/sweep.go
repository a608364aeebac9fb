package hub

import "runtime/debug"

// sweep is the delivery of a channel's messages. It goes round the group, from the first member to the last and again, as
// long as there are messages. Like a passenger of a bus, a message gets on wherever the sweep is, and off when the sweep
// is there again. So no subscriber waits for a message for longer than one round, and each gets all messages at once
// that got on since the sweep passed it last. Subscribers are served in the order of their arrival: the kernel's data of
// connections that were opened one after the other lies in that order in memory, and with cold caches, sending to a
// thousand of them takes a tenth less work than in the opposite order.
type sweep struct {
	group  *group
	next   []*Message // not on yet
	checks int

	batch Batch // the messages that are on, in order
	// from has for each message of batch the value of at when it got on.
	from []int
	old  int
	at   int

	// due is when the window of next ends, 0 if next is empty or not looked at yet. heapIndex is the index in
	// Hub.waiting plus 1, or 0.
	window    Window
	due       int64
	heapIndex int
	weight    int // of next, while the sweep waits
}

// serve returns how much of the budget it took. After a panic, the next call goes on behind the subscriber.
func (h *Hub) serve(w *sweep, budget int) (n int) {
	var s Subscriber
	if h.OnPanic != nil {
		defer func() {
			if r := recover(); r != nil {
				h.OnPanic(s, r, debug.Stack())
			}
		}()
	}
	for n < budget && h.board(w) {
		cost, before := 1+len(w.batch.list)/16, n
		for ; w.at < w.stop() && n < budget; n += cost {
			s = w.group.subs()[w.at]
			w.at++
			deliver(s, &w.batch)
		}
		h.delivered += uint64((n - before) / cost * w.batch.count())
		if w.at < w.stop() {
			break
		}
		h.alight(w)
		if len(w.batch.list) == 0 && w.window != (Window{}) {
			break // the window may hold the next messages back
		}
	}
	return n
}

// stop is where the batch changes next: where its first message gets off, or at the end of
// the round.
func (w *sweep) stop() int {
	if w.old > 0 {
		return w.from[0]
	}
	return len(w.group.subs())
}

func deliver(s Subscriber, b *Batch) {
	if len(b.list) > 1 && s.DeliverAll(b) {
		return
	}
	for i := range b.list {
		s.Deliver(&b.list[i])
	}
}

// board lets messages get on, with a window all together when the sweep is empty, and reports whether any are on.
func (h *Hub) board(w *sweep) bool {
	on := len(w.batch.list)
	if on > 0 && w.window != (Window{}) {
		return true
	}
	if on == 0 {
		w.at = 0
	}
	n := min(len(w.next), maxBatch-on)
	if n == 0 {
		return on > 0
	}
	w.batch.tell(h.Counter)
	for _, m := range w.next[:n] {
		if m.Kind == KindCheck {
			w.checks--
		}
		w.batch.list = append(w.batch.list, Delivery{Message: m, WindowDelay: w.window.Delay, since: h.now, hub: h, frames: h.spareFrames()})
		w.from = append(w.from, w.at)
	}
	w.batch.prepare(w.window.Latest)
	rest := copy(w.next, w.next[n:])
	clear(w.next[rest:])
	w.next = w.next[:rest]
	if w.due = 0; rest > 0 {
		w.due = atOnce
	}
	return true
}

// alight lets the messages get off that all have got.
func (h *Hub) alight(w *sweep) {
	n := 0
	for n < w.old && w.from[n] <= w.at {
		n++
	}
	if n > 0 {
		w.from, w.old = w.from[:copy(w.from, w.from[n:])], w.old-n
		w.batch.drop(n, h)
		h.bases.dropUnused(w.group)
		h.pending -= n
	}
	if w.at == len(w.group.subs()) {
		w.at, w.old = 0, len(w.from)
	}
}

func (w *sweep) awaited(i, index int) bool {
	if i < w.old {
		return w.at <= index && index < w.from[i]
	}
	return w.at <= index || index < w.from[i]
}

// vacate prepares the removal of the subscriber at hole. No other subscriber may cross the places where messages got on,
// and where the sweep is. So at each such border behind the hole, the last subscriber before the border moves to the
// hole, and its own place becomes the hole. vacate returns the last hole.
func (w *sweep) vacate(hole int) int {
	if len(w.from) == 0 {
		return hole
	}
	for i := w.old; i < len(w.from); i++ {
		hole = w.group.shift(&w.from[i], hole)
	}
	hole = w.group.shift(&w.at, hole)
	for i := range w.old {
		hole = w.group.shift(&w.from[i], hole)
	}
	return hole
}

func (g *group) shift(border *int, hole int) int {
	if hole >= *border {
		return hole
	}
	*border--
	if *border != hole {
		g.move(*border, hole)
	}
	return *border
}
