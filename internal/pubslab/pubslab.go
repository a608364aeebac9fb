// Package pubslab makes the publications of batches: many share an allocation, and
// those that nobody kept are used again.
package pubslab

import (
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// Size is how many publications share an allocation: what one slow loop keeps alive.
const Size = 32

type slab struct {
	pubs [Size]channel.Publication
	// kept tells that somebody keeps one of them.
	kept bool
}

// Slabs hands out publications. The zero value is ready for use, by one goroutine.
type Slabs struct {
	slabs []*slab
	// first is where the first slab begins: others before it are kept.
	first int
	used  int // publications that were handed out
}

// Next returns a publication, which is zero.
func (s *Slabs) Next() *channel.Publication {
	end := s.first + s.used
	if end == len(s.slabs)*Size {
		s.slabs = append(s.slabs, nil)
	}
	of := &s.slabs[end/Size]
	if *of == nil {
		*of = new(slab)
	}
	s.used++
	return s.at(s.used - 1)
}

// Reclaim must be called between one batch and the next, with the items that the
// broker got. A batch into channels without subscribers and history, as most are that
// a backend publishes to blindly, costs no publications: a third of what a batch
// allocates. Batches of one share slabs, too, if theirs are kept.
func (s *Slabs) Reclaim(items []broker.BatchItem) {
	// The items have the publications in the order in which they were handed out, some
	// repeatedly, some have others.
	at := -1
	for i := range items {
		item := &items[i]
		if at+1 < s.used && item.Pub == s.at(at+1) {
			at++
		}
		if !item.Unkept && at >= 0 && item.Pub == s.at(at) {
			s.slabs[(s.first+at)/Size].kept = true
		}
	}
	end := s.first + s.used
	for i, from := 0, s.first; from < end; i, from = i+1, (i+1)*Size {
		of := s.slabs[i]
		switch to := min((i+1)*Size, end); {
		case !of.kept:
			clear(of.pubs[from-i*Size : to-i*Size])
		case to < (i+1)*Size: // the last one: what is left of it comes first
			of.kept = false
			s.slabs[i], s.slabs[0] = s.slabs[0], of
			if s.first > 0 && i > 0 {
				s.slabs[i] = nil // has no beginning
			}
			s.first = to - i*Size
		default:
			s.slabs[i] = nil
			if i == 0 {
				s.first = 0
			}
		}
	}
	s.used = 0
}

func (s *Slabs) at(i int) *channel.Publication {
	i += s.first
	return &s.slabs[i/Size].pubs[i%Size]
}
