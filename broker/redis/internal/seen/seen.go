// Package seen remembers publications with history that somebody has seen: a subscriber,
// or a publisher who was told that his is in the stream. A stream that does not hold
// them any more is another one.
package seen

import (
	"hash/maphash"
	"sync"

	"github.com/gyrohq/gyro/broker"
)

// Publication is the latest one of a channel that was seen.
type Publication struct {
	Channel string
	Epoch   string
	Offset  uint64
	Sum     uint64 // of the payload
}

var seed = maphash.MakeSeed()

// Sum of a payload, good in this process.
func Sum(data []byte) uint64 { return maphash.Bytes(seed, data) }

// TextSum is Sum.
func TextSum(data string) uint64 { return maphash.String(seed, data) }

// Acked are the publications that a shard acknowledged last. A primary that fails may
// have told their publishers so, and neither a replica nor a subscriber. The zero value
// is ready for use, by any goroutine.
type Acked struct {
	mu   sync.Mutex
	ring []acknowledgement
	next int // where the next one goes
}

type acknowledgement struct {
	channel    []byte // reused
	epoch      string
	offset     uint64
	sum        uint64
	generation uint64
}

// ackedSize is how many publications of a shard are remembered: more than are under way
// to a replica at a time.
const ackedSize = 8192

// Note remembers a publication, if r says that it is in a stream; sum is that of its
// payload, generation that of the shard's data (see conn.Client.Generation).
func (a *Acked) Note(ch string, r *broker.PublishResult, sum, generation uint64) {
	if r.Suppressed != "" || r.Position.Offset == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ring) < ackedSize {
		a.ring = append(a.ring, acknowledgement{})
	}
	e := &a.ring[a.next]
	a.next = (a.next + 1) % ackedSize
	e.channel, e.epoch, e.offset, e.sum = append(e.channel[:0], ch...), r.Position.Epoch, r.Position.Offset, sum
	e.generation = generation
}

// Newest returns the last publication of each channel up to a generation.
func (a *Acked) Newest(generation uint64) []Publication {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := make(map[string]bool)
	var list []Publication
	for i := range a.ring {
		e := &a.ring[(a.next-1-i+2*len(a.ring))%len(a.ring)]
		if e.generation <= generation && !known[string(e.channel)] {
			p := Publication{string(e.channel), e.epoch, e.offset, e.sum}
			known[p.Channel] = true
			list = append(list, p)
		}
	}
	return list
}
