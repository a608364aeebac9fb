package postgres

import (
	"strings"
	"sync"

	"github.com/gyrohq/gyro/broker/postgres/internal/pghash"
)

// maxNamed is how many channels of a shard are named to the server, so that it sends their rows only. Beyond that it
// sends all rows: most nodes with so many subscriptions need most rows.
const maxNamed = 128

// subscriptions are the channels that this node delivers.
type subscriptions struct{ shards []subscribed }

// subscribed are those of a shard.
type subscribed struct {
	mu       sync.RWMutex
	channels map[string]struct{}
	added    uint64     // how many were added so far
	turn     sync.Mutex // of calls of the handler
}

func newSubscriptions(shards int) *subscriptions {
	s := &subscriptions{shards: make([]subscribed, shards)}
	for i := range s.shards {
		s.shards[i].channels = make(map[string]struct{})
	}
	return s
}

func (s *subscriptions) of(ch string) *subscribed { return &s.shards[pghash.Shard(ch, len(s.shards))] }

func (s *subscriptions) add(channels []string) {
	for _, ch := range channels {
		of := s.of(ch)
		of.mu.Lock()
		if _, known := of.channels[ch]; !known {
			of.channels[strings.Clone(ch)] = struct{}{}
			of.added++
		}
		of.mu.Unlock()
	}
}

func (s *subscriptions) remove(channels []string) {
	for _, ch := range channels {
		of := s.of(ch)
		of.mu.Lock()
		delete(of.channels, ch)
		of.mu.Unlock()
	}
}

func (s *subscriptions) has(ch string) bool {
	of := s.of(ch)
	of.mu.RLock()
	defer of.mu.RUnlock()
	_, ok := of.channels[ch]
	return ok
}

// turn takes the turn of a shard to call the handler, and returns what gives it back.
func (s *subscriptions) turn(shard int) func() {
	s.shards[shard].turn.Lock()
	return s.shards[shard].turn.Unlock
}

// wanted returns the channels of a shard for outbox.Table.Want.
func (s *subscriptions) wanted(shard int, any bool) (list any, all bool, unchanged func() bool) {
	of := &s.shards[shard]
	of.mu.RLock()
	defer of.mu.RUnlock()
	if any || len(of.channels) > maxNamed {
		return nil, true, nil
	}
	names := make([]string, 0, len(of.channels))
	for ch := range of.channels {
		names = append(names, ch)
	}
	before := of.added
	return names, false, func() bool {
		of.mu.RLock()
		defer of.mu.RUnlock()
		return of.added == before
	}
}
