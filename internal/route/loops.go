package route

import (
	"math/bits"
	"sync/atomic"
)

// Loops is a set of loops, by number, in 64 bits. With more than 64 loops some share a bit, and a loop without
// subscribers may get a message in vain.
type Loops uint64

const maxLoops = 64 // with a bit of their own

// Has reports whether a loop is in the set.
func (s Loops) Has(loop int) bool { return s>>(uint(loop)%maxLoops)&1 != 0 }

// Count is how many of n loops are in the set.
func (s Loops) Count(n int) (count int) {
	if n <= maxLoops {
		return bits.OnesCount64(uint64(s))
	}
	for i := range n {
		if s.Has(i) {
			count++
		}
	}
	return count
}

// counts are the numbers of a channel's subscribers per loop: mostly one, and a list of more. Any goroutine may read
// taken, and one at a time use the rest.
type counts struct {
	taken atomic.Uint64 // Loops
	first loopCount
	more  *[]loopCount // nil if there are none
}

type loopCount struct {
	n   int32
	bit uint8
}

func (s *counts) empty() bool { return s.taken.Load() == 0 }

func (s *counts) add(loop int) {
	bit := uint8(loop % maxLoops)
	c := s.find(bit)
	if c == nil {
		c = s.free()
		c.bit = bit
		s.taken.Or(1 << bit)
	}
	c.n++
}

func (s *counts) remove(loop int) {
	bit := uint8(loop % maxLoops)
	c := s.find(bit)
	if c == nil {
		return
	}
	if c.n--; c.n > 0 {
		return
	}
	s.taken.And(^(uint64(1) << bit))
	if c == &s.first {
		return
	}
	list := *s.more
	*c = list[len(list)-1]
	if list = list[:len(list)-1]; len(list) == 0 {
		s.more = nil
		return
	}
	*s.more = list
}

func (s *counts) find(bit uint8) *loopCount {
	if s.first.n > 0 && s.first.bit == bit {
		return &s.first
	}
	if s.more != nil {
		for i := range *s.more {
			if c := &(*s.more)[i]; c.bit == bit {
				return c
			}
		}
	}
	return nil
}

func (s *counts) free() *loopCount {
	if s.first.n == 0 {
		return &s.first
	}
	if s.more == nil {
		s.more = new([]loopCount)
	}
	*s.more = append(*s.more, loopCount{})
	return &(*s.more)[len(*s.more)-1]
}
