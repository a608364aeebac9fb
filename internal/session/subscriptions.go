package session

import (
	"iter"

	"github.com/gyrohq/gyro/internal/hub"
)

// subscriptions of a session by channel. Most sessions have few: these are a list
// that takes no memory of its own, and a map is there only while it pays.
type subscriptions struct {
	first *Subscription
	index map[string]*Subscription // nil while there is the list
	n     int
}

// From more than listMost subscriptions on there is a map, until no more than
// listAgain are left.
const (
	listMost  = 8
	listAgain = 4
)

func (t *subscriptions) get(ch string) *Subscription {
	if t.index != nil {
		return t.index[ch]
	}
	for b := t.first; b != nil; b = b.next {
		if b.channel == ch {
			return b
		}
	}
	return nil
}

// add takes in b, whose channel is not there yet.
func (t *subscriptions) add(b *Subscription) {
	if t.n++; t.index == nil && t.n > listMost {
		t.index = make(map[string]*Subscription, t.n)
		for known := t.first; known != nil; {
			next := known.next
			t.index[known.channel], known.next = known, nil
			known = next
		}
		t.first = nil
	}
	if t.index != nil {
		t.index[b.channel] = b
		return
	}
	b.next, t.first = t.first, b
}

// remove takes out b, if it is there.
func (t *subscriptions) remove(b *Subscription) {
	if t.get(b.channel) != b {
		return
	}
	t.n--
	if t.index != nil {
		delete(t.index, b.channel)
		if t.n <= listAgain {
			for _, left := range t.index {
				left.next, t.first = t.first, left
			}
			t.index = nil
		}
		return
	}
	at := &t.first
	for *at != b {
		at = &(*at).next
	}
	*at, b.next = b.next, nil
}

// all goes through the subscriptions in no order. The one that it is at may be
// removed meanwhile, and no other.
func (t *subscriptions) all() iter.Seq[*Subscription] {
	return func(yield func(*Subscription) bool) {
		for _, b := range t.index {
			if !yield(b) {
				return
			}
		}
		for b := t.first; b != nil; {
			next := b.next
			if !yield(b) {
				return
			}
			b = next
		}
	}
}

// Window is how long messages of the channel are to be held back, as the options of
// the subscription have it. It is known while the subscription joins.
func (b *Subscription) Window() hub.Window {
	if b.setup == nil || b.setup.opts == nil {
		return hub.Window{}
	}
	return hub.Window{Delay: b.setup.opts.BatchMaxDelay, Size: b.setup.opts.BatchMaxSize}
}
