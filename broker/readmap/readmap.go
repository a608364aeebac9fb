// Package readmap is a map that is read without a lock, for lookups that an engine or a node makes for every message.
// Readers never wait for writers. A lookup costs half as much as in a map behind a sync.RWMutex.
package readmap

import (
	"sync/atomic"

	"github.com/gyrohq/gyro/internal/random"
)

// Map finds values by strings. Any goroutine may call Get at any time. All other methods are for writers, which must
// share a lock. The zero value is an empty map.
//
// A map is a table of pointers with open addressing. A writer changes one slot at a time, and replaces the whole table
// when it is full or nearly empty. A reader that has the old table sees the map as it was when the read began.
type Map[V any] struct {
	table atomic.Pointer[table[V]]
	size  int
	// used counts the slots that do not end a search: entries and tombstones.
	used int
}

type table[V any] struct {
	slots     []atomic.Pointer[entry[V]] // their number is a power of two; at least one is empty
	tombstone entry[V]                   // takes the place of an entry that was deleted
}

type entry[V any] struct {
	hash  uint64
	key   string
	value V
}

// minSlots of a table. At least one slot in four is empty.
const minSlots = 8

// Hash returns the hash of a key, which the methods take beside the key, so that callers can use it several times. It
// differs from process to process.
func Hash(key string) uint64 { return random.Hash(key) }

// Get returns the value of a key and true, or the zero value and false. hash is Hash(key).
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

// find returns the slot of a key and its entry, or the empty slot where the search ended and nil. For readers, a writer
// may fill that slot at any time.
func (t *table[V]) find(hash uint64, key string) (*atomic.Pointer[entry[V]], *entry[V]) {
	mask := uint64(len(t.slots) - 1)
	for i := hash >> 8; ; i++ { // the lowest bits are left to callers who choose among many maps
		slot := &t.slots[i&mask]
		e := slot.Load()
		if e == nil || e.hash == hash && e.key == key && e != &t.tombstone {
			return slot, e
		}
	}
}

// Len returns the number of keys.
func (m *Map[V]) Len() int { return m.size }

// Set sets the value of a key. The map keeps the key itself, not a copy.
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

// Delete removes a key, if it is there.
func (m *Map[V]) Delete(hash uint64, key string) {
	t := m.table.Load()
	if t == nil {
		return
	}
	slot, e := t.find(hash, key)
	if e == nil {
		return
	}
	slot.Store(&t.tombstone)
	m.size--
	if m.size == 0 {
		m.table.Store(nil)
		m.used = 0
	} else if len(t.slots) > minSlots && m.size < len(t.slots)/8 {
		m.rehash(t)
	}
}

// All calls f with each key and value until it returns false.
func (m *Map[V]) All(f func(key string, value V) bool) {
	t := m.table.Load()
	if t == nil {
		return
	}
	for i := range t.slots {
		if e := t.slots[i].Load(); e != nil && e != &t.tombstone && !f(e.key, e.value) {
			return
		}
	}
}

func (m *Map[V]) resize() {
	t := m.table.Load()
	if t == nil || (m.used+1)*4 > len(t.slots)*3 {
		m.rehash(t)
	}
}

// rehash makes a table that is at most half full and has no tombstones.
func (m *Map[V]) rehash(t *table[V]) {
	n := minSlots
	for n < 2*(m.size+1) {
		n *= 2
	}
	to := &table[V]{slots: make([]atomic.Pointer[entry[V]], n)}
	if t != nil {
		for i := range t.slots {
			if e := t.slots[i].Load(); e != nil && e != &t.tombstone {
				slot, _ := to.find(e.hash, e.key)
				slot.Store(e)
			}
		}
	}
	m.table.Store(to)
	m.used = m.size
}
