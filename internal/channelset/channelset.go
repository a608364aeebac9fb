// Package channelset finds the items of a client, or of a loop, by their channels.
package channelset

import (
	"iter"
	"math/bits"

	"github.com/gyrohq/gyro/internal/random"
)

// Item is a pointer to something that belongs to a channel.
type Item[T any] interface {
	comparable
	Channel() string
	Next() *T
}

// Set has an item per channel. A few items, as most clients have, are in one linked list, which needs no memory of its
// own. More are in lists by a hash of the channel, which need 4 to 8 bytes per item, where a map of Go needs 40. The
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

// A set that is a part of a Table takes the lowest bits of a hash, the table its highest ones.
func hash(ch string) uint64 { return random.Hash(ch) }

// head returns the place of the first item in the list of a hash.
func (t *Set[T]) head(hash uint64) *T {
	if t.lists == nil {
		return &t.first
	}
	lists := *t.lists
	return &lists[hash&uint64(len(lists)-1)]
}

// headOf is head for a channel whose hash may not be needed.
func (t *Set[T]) headOf(ch string) *T {
	if t.lists == nil {
		return &t.first
	}
	return t.head(hash(ch))
}

// Len is the number of items.
func (t *Set[T]) Len() int { return t.n }

// Get returns the item of a channel, or nil.
func (t *Set[T]) Get(ch string) T { return find(*t.headOf(ch), ch) }

func find[T Item[T]](first T, ch string) (none T) {
	for b := first; b != none; b = *b.Next() {
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

func (t *Set[T]) most() int {
	if t.lists == nil {
		return oneList
	}
	return perList * len(*t.lists)
}

func (t *Set[T]) push(b T) {
	at := t.headOf(b.Channel())
	*b.Next(), *at = *at, b
}

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
	at := t.headOf(b.Channel())
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

// All iterates in no order. The loop may remove the current item, but no other.
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

// Table is a Set for a loop with many channels: it consists of many sets, so that no Add or Remove moves more than a
// small part of the items. The zero value is empty.
type Table[T Item[T]] struct {
	parts [parts]Set[T]
	n     int
}

const (
	partBits = 8
	parts    = 1 << partBits
)

func (t *Table[T]) part(hash uint64) *Set[T] { return &t.parts[hash>>(64-partBits)] }

// Len is the number of items.
func (t *Table[T]) Len() int { return t.n }

// Get returns the item of a channel, or nil.
func (t *Table[T]) Get(ch string) (none T) {
	if t.n == 0 {
		return none
	}
	h := hash(ch)
	return find(*t.part(h).head(h), ch)
}

// Add adds b. The table must not have an item of its channel.
func (t *Table[T]) Add(b T) {
	t.part(hash(b.Channel())).Add(b)
	t.n++
}

// Remove removes b, which must be in the table.
func (t *Table[T]) Remove(b T) {
	t.part(hash(b.Channel())).Remove(b)
	t.n--
}

// All iterates in no order. The loop may remove the current item, but no other.
func (t *Table[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range t.parts {
			for b := range t.parts[i].All() {
				if !yield(b) {
					return
				}
			}
		}
	}
}
