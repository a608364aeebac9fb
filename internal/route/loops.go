package route

import (
	"math/bits"
	"sync/atomic"
)

// Loops is a set of loops, by number, with 64 places. With more than 64 loops some share a place, and a loop without
// subscribers may get a message in vain.
type Loops uint64

const places = 64

// Has reports whether a loop is in the set.
func (s Loops) Has(loop int) bool { return s>>(uint(loop)%places)&1 != 0 }

// Count is how many of n loops are in the set.
func (s Loops) Count(n int) (count int) {
	if n <= places {
		return bits.OnesCount64(uint64(s))
	}
	for i := range n {
		if s.Has(i) {
			count++
		}
	}
	return count
}

// counts are the numbers of a channel's subscribers per loop. Most channels have subscribers on few loops, so there is
// room for one place, and a list of more is made when needed. Any goroutine may read taken, and one at a time use the
// rest.
type counts struct {
	taken atomic.Uint64 // Loops
	first placeCount
	more  *[]placeCount // nil if there are none
}

type placeCount struct {
	n     int32
	place uint8
}

func (s *counts) empty() bool { return s.taken.Load() == 0 }

func (s *counts) add(loop int) {
	place := uint8(loop % places)
	c := s.find(place)
	if c == nil {
		c = s.free()
		c.place = place
		s.taken.Or(1 << place)
	}
	c.n++
}

func (s *counts) remove(loop int) {
	place := uint8(loop % places)
	c := s.find(place)
	if c == nil {
		return
	}
	if c.n--; c.n > 0 {
		return
	}
	s.taken.And(^(uint64(1) << place))
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

func (s *counts) find(place uint8) *placeCount {
	if s.first.n > 0 && s.first.place == place {
		return &s.first
	}
	if s.more != nil {
		for i := range *s.more {
			if c := &(*s.more)[i]; c.place == place {
				return c
			}
		}
	}
	return nil
}

func (s *counts) free() *placeCount {
	if s.first.n == 0 {
		return &s.first
	}
	if s.more == nil {
		s.more = new([]placeCount)
	}
	*s.more = append(*s.more, placeCount{})
	return &(*s.more)[len(*s.more)-1]
}
