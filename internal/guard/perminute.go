package guard

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"
)

const (
	// interval is the least time between two times that a key is allowed.
	interval = time.Minute
	// maxKeys is how many keys are allowed within the interval.
	maxKeys = 1024
)

var seed = maphash.MakeSeed()

// PerMinute allows each key once per minute, and at most 1,024 keys in that time. It takes
// little memory for any number of keys of any length. The zero value is ready for use, by any
// goroutine.
type PerMinute struct {
	mu sync.Mutex
	// at is when keys were allowed, by their hashes.
	at map[uint64]time.Time
	// cleaned is when keys were last removed from at.
	cleaned time.Time
}

// Allow reports whether the key, which may have several parts, is allowed now.
func (p *PerMinute) Allow(key ...string) bool {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, part := range key {
		maphash.WriteComparable(&h, part)
	}
	hash, now := h.Sum64(), time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, ok := p.at[hash]; ok && now.Sub(at) < interval {
		return false
	}
	if len(p.at) >= maxKeys && now.Sub(p.cleaned) >= interval {
		p.cleaned = now
		maps.DeleteFunc(p.at, func(_ uint64, at time.Time) bool { return now.Sub(at) >= interval })
	}
	if len(p.at) >= maxKeys {
		return false
	}
	if p.at == nil {
		p.at = make(map[uint64]time.Time)
	}
	p.at[hash] = now
	return true
}
