// Package bychannel finds what a client has by channel.
package bychannel

import "iter"

// Item is a pointer to something that belongs to a channel.
type Item[T any] interface {
	comparable
	Channel() string
	// Next is where a Set keeps the item behind it.
	Next() *T
}

// Set has an item per channel. Most clients have few: these are a list that takes no
// memory of its own, and a map is there only while it pays. The zero value is empty.
type Set[T Item[T]] struct {
	first T
	index map[string]T // nil while there is the list
	n     int
}

// From more than listMost items on there is a map, until no more than listAgain are left.
const (
	listMost  = 8
	listAgain = 4
)

// Len is the number of items.
func (t *Set[T]) Len() int { return t.n }

// Get returns the item of a channel; nil if there is none.
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

// Add takes in b, whose channel is not there yet.
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

// Remove takes out b, if it is there.
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

// All goes through the items in no order. The one that it is at may be removed
// meanwhile, and no other.
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
