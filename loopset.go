package gyro

import "sync/atomic"

// loopSet counts the subscribers of a channel per loop. There is one for every
// channel, and most have subscribers on few loops, however many there are.
//
// Loops share 64 places; that two loops share one, on a machine of more than 64
// processors, costs no more than a message to a loop without subscribers.
type loopSet struct {
	taken atomic.Uint64
	first placeCount
	more  *[]placeCount // other places; nil if there are none
}

type placeCount struct {
	n     int32
	place uint8
}

const places = 64

// mask of the places taken: a loop's subscribers may be among those counted if has
// says so. Any goroutine may call it; everything else is for one at a time.
func (s *loopSet) mask() uint64 { return s.taken.Load() }

// has tells whether mask holds the place of a loop.
func has(mask uint64, loop int) bool { return mask>>(uint(loop)%places)&1 != 0 }

func (s *loopSet) empty() bool { return s.taken.Load() == 0 }

func (s *loopSet) add(loop int) {
	place := uint8(loop % places)
	c := s.find(place)
	if c == nil {
		c = s.free()
		c.place = place
		s.taken.Or(1 << place)
	}
	c.n++
}

// remove undoes an add.
func (s *loopSet) remove(loop int) {
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

func (s *loopSet) find(place uint8) *placeCount {
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

// free returns a count that is not in use.
func (s *loopSet) free() *placeCount {
	if s.first.n == 0 {
		return &s.first
	}
	if s.more == nil {
		s.more = new([]placeCount)
	}
	*s.more = append(*s.more, placeCount{})
	return &(*s.more)[len(*s.more)-1]
}
