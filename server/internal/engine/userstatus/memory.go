package userstatus

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

const (
	stripes = 64
	// maxMemory bounds the users. Each takes some 150 bytes, and its ID and state.
	maxMemory  = 1_000_000
	expireEach = time.Minute
)

// Memory is a Store in memory, for one node. Beyond 1,000,000 users it forgets some with an old last update.
type Memory struct {
	expire  time.Duration
	limit   int // users per stripe
	seed    maphash.Seed
	stripes [stripes]stripe
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

type stripe struct {
	mu sync.Mutex
	m  map[string]known
}

type known struct {
	Status
	heard int64 // Unix seconds
}

// NewMemory returns a store that forgets users after a time.
func NewMemory(expire time.Duration) *Memory {
	return &Memory{expire: expire, limit: maxMemory / stripes, seed: maphash.MakeSeed(), stop: func() {}}
}

// Start implements Store.
func (m *Memory) Start(context.Context) error {
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.ended.Go(func() { m.removeExpired(ctx) })
	return nil
}

// Close implements Store.
func (m *Memory) Close() {
	m.stop()
	m.ended.Wait()
}

func (m *Memory) removeExpired(ctx context.Context) {
	ticker := time.NewTicker(expireEach)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % stripes {
		select {
		case <-ticker.C:
			s := &m.stripes[i]
			s.mu.Lock()
			s.expire(m.oldest())
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

func (m *Memory) oldest() int64 { return time.Now().Add(-m.expire).Unix() }

func (s *stripe) expire(oldest int64) {
	for user, k := range s.m {
		if k.heard <= oldest {
			delete(s.m, user)
		}
	}
}

// makeRoom removes the user with the oldest last update of some.
func (s *stripe) makeRoom() {
	victim, since, seen := "", int64(0), 0
	for user, k := range s.m { // begins anywhere
		if seen == 0 || k.heard < since {
			victim, since = user, k.heard
		}
		if seen++; seen == 16 {
			break
		}
	}
	delete(s.m, victim)
}

func (m *Memory) of(user string) *stripe {
	return &m.stripes[maphash.String(m.seed, user)%stripes]
}

// Update implements Store.
func (m *Memory) Update(_ context.Context, users []string, later Status) error {
	at, oldest := now(), m.oldest()
	for _, user := range users {
		s := m.of(user)
		s.mu.Lock()
		if s.m == nil {
			s.m = make(map[string]known)
		}
		k, there := s.m[user]
		if k.heard <= oldest {
			k.Status = Status{}
		}
		k.merge(later)
		k.heard = at
		if !there && len(s.m) >= m.limit {
			s.makeRoom()
		}
		s.m[user] = k
		s.mu.Unlock()
	}
	return nil
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, users []string) ([]Status, error) {
	list, oldest := make([]Status, len(users)), m.oldest()
	for i, user := range users {
		s := m.of(user)
		s.mu.Lock()
		if k := s.m[user]; k.heard > oldest {
			list[i] = k.Status
		}
		s.mu.Unlock()
	}
	return list, nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, users []string) error {
	for _, user := range users {
		s := m.of(user)
		s.mu.Lock()
		delete(s.m, user)
		s.mu.Unlock()
	}
	return nil
}
