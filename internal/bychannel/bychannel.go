// Package bychannel finds the items of a client by their channels.
package bychannel

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// Item is a pointer to something that belongs to a channel.
type Item[T any] interface {
	comparable
	Channel() string
	// Next returns where the Set stores the next item of its list.
	Next() *T
}

// Set has an item per channel. The items are in linked lists: one list of a few items, as most clients have, which needs no
// memory of its own; of more, lists by a hash of the channel, which need 4 to 8 bytes per item, where a map of Go needs 40. The
// zero value is empty.
type Set[T Item[T]] struct {
	first T    // of the only list
	lists *[]T // their first items; nil while there is one list
	n     int
}

const (
	// oneList is how many items are in one list at most, perList how many there are per list on average.
	oneList = 8
	perList = 2
	// spare is how many times as many lists as needed there may be, before Add reduces them.
	spare = 8
)

var seed = maphash.MakeSeed()

// head returns the place of the first item of a channel's list.
func (t *Set[T]) head(ch string) *T {
	if t.lists == nil {
		return &t.first
	}
	lists := *t.lists
	return &lists[maphash.String(seed, ch)&uint64(len(lists)-1)]
}

// Len is the number of items.
func (t *Set[T]) Len() int { return t.n }

// Get returns the item of a channel, or nil.
func (t *Set[T]) Get(ch string) (none T) {
	for b := *t.head(ch); b != none; b = *b.Next() {
		if b.Channel() == ch {
			return b
		}
	}
	return none
}

// Add adds b. The set must not have an item of its channel.
func (t *Set[T]) Add(b T) {
	t.n++
	if most := t.most(); t.n > most || spare*t.n < most && t.lists != nil {
		t.spread()
	}
	t.push(b)
}

// most is how many items the lists are for.
func (t *Set[T]) most() int {
	if t.lists == nil {
		return oneList
	}
	return perList * len(*t.lists)
}

func (t *Set[T]) push(b T) {
	at := t.head(b.Channel())
	*b.Next(), *at = *at, b
}

// spread puts the items into as many lists as their number needs.
func (t *Set[T]) spread() {
	before := *t
	*t = Set[T]{n: before.n}
	if t.n > oneList {
		t.lists = new(make([]T, 1<<bits.Len(uint(t.n/perList))))
	}
	for b := range before.All() {
		t.push(b)
	}
}

// Remove removes b, if it is in the set.
func (t *Set[T]) Remove(b T) {
	var none T
	at := t.head(b.Channel())
	for ; *at != b; at = (*at).Next() {
		if *at == none {
			return
		}
	}
	*at, *b.Next() = *b.Next(), none
	if t.n--; t.n == 0 {
		t.lists = nil
	}
}

// All iterates over the items in no order. The loop may remove the current item, but no
// other.
func (t *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		var none T
		lists := []T{t.first}
		if t.lists != nil {
			lists = *t.lists
		}
		for _, b := range lists {
			for b != none {
				next := *b.Next()
				if !yield(b) {
					return
				}
				b = next
			}
		}
	}
}
