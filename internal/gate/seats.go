package gate

import (
	"hash/maphash"
	"sync"
)

// key names what is read. Reads of the same key have the same answer at any moment.
type key[K any] interface {
	same(other K) bool
	hash(seed maphash.Seed) uint64
	// own returns a key that does not share memory that its maker may change.
	own() K
}

const (
	numStripes = 64
	numHeads   = 64
	keepFree   = 8
)

// stripe is a part of the keys with a read under way: a hash table whose size is
// fixed, since they are few, or wait for a slot.
type stripe[K key[K], V any] struct {
	mu      sync.Mutex
	heads   [numHeads]*seat[K, V]
	free    *seat[K, V]
	numFree int
	_       [40]byte // no neighbour in the cache line
}

// seat is a key with a read under way.
type seat[K key[K], V any] struct {
	key   K
	hash  uint64
	other *seat[K, V] // the next of the same head
	next  *flight[V]  // nil if nobody waits
}

// head is where the keys of a hash are; its lower bits chose the stripe.
func (st *stripe[K, V]) head(hash uint64) **seat[K, V] {
	return &st.heads[hash/numStripes%numHeads]
}

// find returns the seat of a key, or nil. mu is held.
func (st *stripe[K, V]) find(hash uint64, k *K) *seat[K, V] {
	s := *st.head(hash)
	for s != nil && (s.hash != hash || !s.key.same(*k)) {
		s = s.other
	}
	return s
}

// add makes a seat for a key that has none. mu is held.
func (st *stripe[K, V]) add(hash uint64, k *K) *seat[K, V] {
	s := st.free
	if s != nil {
		st.free = s.other
		st.numFree--
	} else {
		s = new(seat[K, V])
	}
	head := st.head(hash)
	s.key, s.hash, s.other = *k, hash, *head
	*head = s
	return s
}

// remove takes a seat out. mu is held.
func (st *stripe[K, V]) remove(s *seat[K, V]) {
	at := st.head(s.hash)
	for *at != s {
		at = &(*at).other
	}
	*at = s.other
	*s = seat[K, V]{} // holds on to nothing
	if st.numFree < keepFree {
		s.other, st.free = st.free, s
		st.numFree++
	}
}
