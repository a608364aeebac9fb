package hub

import "sync/atomic"

// Rounds numbers the rounds of a node's checks. A subscriber notes the round when its position moves or is found right.
// A top of a later round is compared only with a position that has not moved since before the reading: a publication
// that moved it has confirmed it. Any goroutine may use it.
type Rounds struct {
	n atomic.Uint32
	_ [60]byte // so that n, which every publication reads, has a cache line of its own
}

// Now is the current round.
func (r *Rounds) Now() uint32 { return r.n.Load() }

// Begin starts a round, and the caller then reads the tops.
func (r *Rounds) Begin() uint32 { return r.n.Add(1) }

// Concerns reports whether m was read in a round after the noted one, modulo 2^32.
func (m *Message) Concerns(noted uint32) bool { return int32(m.Round-noted) > 0 }
