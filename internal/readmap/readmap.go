// Package readmap is a map that is read without a lock: what is looked up for every
// message must not be held up by those who come and go, and two locked instructions a
// lookup are half of what it costs.
package readmap

import (
	"hash/maphash"
	"sync/atomic"
)

// Map finds values by names. Get may be called from any goroutine at any time; who
// changes the map sees to it that nobody else does meanwhile. The zero value is empty.
//
// It is a table of pointers with open addressing. A writer changes a slot at a time, and
// puts another table in its place when the present one is full or nearly empty; a reader
// that still has the old one sees the map as it was when it began.
type Map[V any] struct {
	table atomic.Pointer[table[V]]
	size  int
	// used are the slots that end no search: entries, and the graves of entries.
	used int
}

type table[V any] struct {
	slots []atomic.Pointer[entry[V]] // a power of two, one of them empty at least
	grave entry[V]                   // stands where an entry was
}

type entry[V any] struct {
	hash  uint64
	key   string
	value V
}

// minSlots is the size of the smallest table. One in four slots is empty at least.
const minSlots = 8

var seed = maphash.MakeSeed()

// Hash of a key, which those take who have more than one use for it.
func Hash(key string) uint64 { return maphash.String(seed, key) }

// Get returns the value of a key, or the zero value. The hash is the key's.
func (m *Map[V]) Get(hash uint64, key string) (value V, ok bool) {
	t := m.table.Load()
	if t == nil {
		return value, false
	}
	if _, e := t.find(hash, key); e != nil {
		return e.value, true
	}
	return value, false
}

// find returns the slot of a key and its entry; or the empty slot where the search ends,
// and nil. Only a writer may count on it that the slot stays so.
func (t *table[V]) find(hash uint64, key string) (*atomic.Pointer[entry[V]], *entry[V]) {
	mask := uint64(len(t.slots) - 1)
	for i := hash >> 8; ; i++ { // who has many maps chooses by the lowest bits
		slot := &t.slots[i&mask]
		e := slot.Load()
		if e == nil || e.hash == hash && e.key == key && e != &t.grave {
			return slot, e
		}
	}
}

// Len is the number of keys. It is for those who may change the map, as is what follows.
func (m *Map[V]) Len() int { return m.size }

// Set gives a key a value.
func (m *Map[V]) Set(hash uint64, key string, value V) {
	m.resize()
	t := m.table.Load()
	slot, e := t.find(hash, key)
	if e == nil {
		m.size++
		m.used++
	}
	slot.Store(&entry[V]{hash, key, value})
}

// Delete removes a key if it is there.
func (m *Map[V]) Delete(hash uint64, key string) {
	t := m.table.Load()
	if t == nil {
		return
	}
	slot, e := t.find(hash, key)
	if e == nil {
		return
	}
	slot.Store(&t.grave)
	if m.size--; m.size == 0 {
		m.table.Store(nil)
		m.used = 0
	} else if len(t.slots) > minSlots && m.size < len(t.slots)/8 {
		m.move(t)
	}
}

// All calls f with each key and value until it returns false.
func (m *Map[V]) All(f func(key string, value V) bool) {
	t := m.table.Load()
	if t == nil {
		return
	}
	for i := range t.slots {
		if e := t.slots[i].Load(); e != nil && e != &t.grave && !f(e.key, e.value) {
			return
		}
	}
}

// resize makes room for one more.
func (m *Map[V]) resize() {
	t := m.table.Load()
	if t == nil || (m.used+1)*4 > len(t.slots)*3 {
		m.move(t)
	}
}

// move puts a table in the place of t that is at most half full, without graves.
func (m *Map[V]) move(t *table[V]) {
	n := minSlots
	for n < 2*(m.size+1) {
		n *= 2
	}
	to := &table[V]{slots: make([]atomic.Pointer[entry[V]], n)}
	if t != nil {
		for i := range t.slots {
			if e := t.slots[i].Load(); e != nil && e != &t.grave {
				slot, _ := to.find(e.hash, e.key)
				slot.Store(e)
			}
		}
	}
	m.table.Store(to)
	m.used = m.size
}
