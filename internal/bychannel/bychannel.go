// Package bychannel finds the items of a client by their channels.
package bychannel

import "iter"

// Item is a pointer to something that belongs to a channel.
type Item[T any] interface {
	comparable
	Channel() string
	// Next returns where the Set stores the next item of its list.
	Next() *T
}

// Set has an item per channel. A few items, as most clients have, are a linked list without
// memory of its own; more are a map. The zero value is empty.
type Set[T Item[T]] struct {
	first T            // of the list
	index map[string]T // nil while there is a list
	n     int
}

// With more than listMost items the list becomes a map, with listAgain again a list.
const (
	listMost  = 8
	listAgain = 4
)

// Len is the number of items.
func (t *Set[T]) Len() int { return t.n }

// Get returns the item of a channel, or nil.
func (t *Set[T]) Get(ch string) (none T) {
	if t.index != nil {
		return t.index[ch]
	}
	for b := t.first; b != none; b = *b.Next() {
		if b.Channel() == ch {
			return b
		}
	}
	return none
}

// Add adds b. The set must not have an item of its channel.
func (t *Set[T]) Add(b T) {
	var none T
	if t.n++; t.index == nil && t.n > listMost {
		t.index = make(map[string]T, t.n)
		for known := t.first; known != none; {
			next := *known.Next()
			t.index[known.Channel()], *known.Next() = known, none
			known = next
		}
		t.first = none
	}
	if t.index != nil {
		t.index[b.Channel()] = b
		return
	}
	*b.Next(), t.first = t.first, b
}

// Remove removes b, if it is in the set.
func (t *Set[T]) Remove(b T) {
	if t.Get(b.Channel()) != b {
		return
	}
	var none T
	t.n--
	if t.index != nil {
		delete(t.index, b.Channel())
		if t.n <= listAgain {
			for _, left := range t.index {
				*left.Next(), t.first = t.first, left
			}
			t.index = nil
		}
		return
	}
	at := &t.first
	for *at != b {
		at = (*at).Next()
	}
	*at, *b.Next() = *b.Next(), none
}

// All iterates over the items in no order. The loop may remove the current item, but no
// other.
func (t *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, b := range t.index {
			if !yield(b) {
				return
			}
		}
		var none T
		for b := t.first; b != none; {
			next := *b.Next()
			if !yield(b) {
				return
			}
			b = next
		}
	}
}
