package loop

import (
	"math/bits"

	"github.com/gyrohq/gyro/internal/random"
)

// neighbours is how many sessions in a row get the same phase. The memory, above all the kernel's, of connections that
// were opened one after the other lies side by side. If 64 of them are pinged together, a ping and its pong cost a third
// less than if they lie all over the memory.
const neighbours = 64

type phases struct {
	fraction uint64 // of the period
	left     int    // sessions that still get this fraction
}

// Phase returns a random number in [0, n) to spread the work of sessions over a period. Neighbours get the same one.
func (l *Loop) Phase(n int64) int64 {
	p := &l.phases
	if p.left == 0 {
		p.fraction, p.left = random.Uint64(), neighbours
	}
	p.left--
	at, _ := bits.Mul64(p.fraction, uint64(n))
	return int64(at)
}
