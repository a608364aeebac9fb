package hub

import "sync/atomic"

// Rounds numbers the rounds in which a node compares positions with the tops of
// their streams. A subscriber notes the round in which its position was last found
// to be right. What is read in a later round says something about a position that
// stood still since before the reading, and only about such a one: what moved a
// position meanwhile has confirmed it. Any goroutine may use it.
type Rounds struct {
	n atomic.Uint32
	_ [60]byte // every publication reads n: it has a cache line of its own
}

// Now is the current round.
func (r *Rounds) Now() uint32 { return r.n.Load() }

// Begin starts a round and returns it. The caller reads positions after that, not before.
func (r *Rounds) Begin() uint32 { return r.n.Add(1) }

// Concerns tells whether the check m was read in a round that began after the one
// noted. Numbers come again after 2^32 rounds.
func (m *Message) Concerns(noted uint32) bool { return int32(m.Round-noted) > 0 }
