package loop

import (
	"math/bits"
	"math/rand/v2"
)

// neighbours is how many sessions in a row get the same phase. What they, and above all
// the kernel, keep of connections that were opened one after the other lies side by side
// in memory. When 64 neighbours have their pings together, a ping and its pong cost a
// third less than those of connections from all over the memory, which is cold.
const neighbours = 64

// phases hands out moments of a period.
type phases struct {
	fraction uint64 // of the period
	left     int    // who get it yet
}

// Phase is a number in [0, n), the same for a given n to neighbours: random, so that the
// work of all spreads over a period.
func (l *Loop) Phase(n int64) int64 {
	p := &l.phases
	if p.left == 0 {
		p.fraction, p.left = rand.Uint64(), neighbours
	}
	p.left--
	at, _ := bits.Mul64(p.fraction, uint64(n))
	return int64(at)
}
