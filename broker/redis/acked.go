package redis

import (
	"hash/maphash"
	"sync"

	"github.com/gyrohq/gyro/broker"
)

// ackedSize is how many publications of a shard are remembered as acknowledged: more
// than are under way to a replica at a time.
const ackedSize = 8192

// acked are the publications with history that a shard acknowledged last. A primary
// that fails may have told their publishers so, and neither a replica nor a
// subscriber.
type acked struct {
	mu   sync.Mutex
	ring []acknowledgement
	next int // where the next one goes
}

type acknowledgement struct {
	channel []byte // reused
	epoch   string
	offset  uint64
	sum     uint64
	// generation of the shard's data; see conn.Client.Generation.
	generation uint64
}

// note remembers a publication; sum is the fingerprint of its payload.
func (a *acked) note(ch string, r *broker.PublishResult, sum, generation uint64) {
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

// newest returns the last publication of each channel up to a generation.
func (a *acked) newest(generation uint64) []subscription {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := make(map[string]bool)
	var list []subscription
	for i := range a.ring {
		e := &a.ring[(a.next-1-i+2*len(a.ring))%len(a.ring)]
		if e.generation <= generation && !seen[string(e.channel)] {
			s := subscription{string(e.channel), e.epoch, e.offset, e.sum}
			seen[s.channel] = true
			list = append(list, s)
		}
	}
	return list
}

// textSum is fingerprint.
func textSum(payload string) uint64 { return maphash.String(seed, payload) }
