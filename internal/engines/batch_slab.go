package engines

import (
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// slabSize is how many publications share an allocation, which lives as long as one of them is kept.
const slabSize = 32

type slab struct {
	pubs [slabSize]channel.Publication
	// kept: the broker keeps a publication since the last reclaim.
	kept bool
}

type slabs struct {
	slabs []*slab
	// first is how many publications of the first slab earlier batches keep.
	first int
	used  int // publications that were handed out since the last reclaim
}

func (s *slabs) next() *channel.Publication {
	end := s.first + s.used
	if end == len(s.slabs)*slabSize {
		s.slabs = append(s.slabs, nil)
	}
	of := &s.slabs[end/slabSize]
	if *of == nil {
		*of = new(slab)
	}
	s.used++
	return s.at(s.used - 1)
}

// reclaim takes back, after each batch, slabs and parts of slabs that the broker does not keep. So a batch into channels
// without subscribers and history, as backends often publish, allocates a third less.
func (s *slabs) reclaim(items []broker.BatchItem) {
	// Items have the publications in the order of the slabs. Several may share one, and some have one that is not from
	// here.
	at := -1
	for i := range items {
		item := &items[i]
		if at+1 < s.used && item.Pub == s.at(at+1) {
			at++
		}
		if !item.Unkept && at >= 0 && item.Pub == s.at(at) {
			s.slabs[(s.first+at)/slabSize].kept = true
		}
	}
	end := s.first + s.used
	for i, from := 0, s.first; from < end; i, from = i+1, (i+1)*slabSize {
		of := s.slabs[i]
		switch to := min((i+1)*slabSize, end); {
		case !of.kept:
			clear(of.pubs[from-i*slabSize : to-i*slabSize])
		case to < (i+1)*slabSize: // the last one: the next batch begins with its rest
			of.kept = false
			s.slabs[i], s.slabs[0] = s.slabs[0], of
			if s.first > 0 && i > 0 {
				s.slabs[i] = nil // earlier batches keep its first publications
			}
			s.first = to - i*slabSize
		default:
			s.slabs[i] = nil
			if i == 0 {
				s.first = 0
			}
		}
	}
	s.used = 0
}

func (s *slabs) at(i int) *channel.Publication {
	i += s.first
	return &s.slabs[i/slabSize].pubs[i%slabSize]
}
