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
	used  int // publications that were handed out
}

// Next returns a publication, which is zero.
func (s *Slabs) Next() *channel.Publication {
	if s.used == len(s.slabs)*Size {
		s.slabs = append(s.slabs, nil)
	}
	of := &s.slabs[s.used/Size]
	if *of == nil {
		*of = new(slab)
	}
	s.used++
	return s.at(s.used - 1)
}

// Reclaim must be called between one batch and the next, with the items that the
// broker got. A batch into channels without subscribers and history, as most are that
// a backend publishes to blindly, costs no publications: a third of what a batch
// allocates.
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
			s.slabs[at/Size].kept = true
		}
	}
	for i, from := 0, 0; from < s.used; i, from = i+1, from+Size {
		if s.slabs[i].kept {
			s.slabs[i] = nil
			continue
		}
		clear(s.slabs[i].pubs[:min(Size, s.used-from)])
	}
	s.used = 0
}

func (s *Slabs) at(i int) *channel.Publication { return &s.slabs[i/Size].pubs[i%Size] }
