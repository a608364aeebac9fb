package memory

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/channel"
)

const presenceStripeCount = 256

// Presence forgets an entry that is not renewed in time. It needs no Close: one timer runs while there are entries.
type Presence struct {
	ttl     int64
	seed    maphash.Seed
	start   time.Time
	armed   atomic.Bool
	stripes []presenceStripe
}

var _ broker.PresenceManager = (*Presence)(nil)

// presenceStripe: all entries have the same time to live, so one list in the order of renewals is in the order of
// expiry, too.
type presenceStripe struct {
	mu       sync.Mutex
	channels table[string, *members]
	oldest   *member
	newest   *member
}

type members struct {
	channel string
	clients table[string, *member]
	users   table[string, int] // number of clients by user
}

type member struct {
	of           *members
	info         *channel.ClientInfo
	client       string
	expireAt     int64
	older, newer *member
}

// NewPresence uses PresenceTTL of cfg alone.
func NewPresence(cfg Config) *Presence {
	return &Presence{
		ttl:     int64(enginekit.PositiveOr(cfg.PresenceTTL, defaultPresenceTTL)),
		seed:    maphash.MakeSeed(),
		start:   time.Now(),
		stripes: make([]presenceStripe, presenceStripeCount),
	}
}

// Describe implements broker.Engine.
func (p *Presence) Describe() broker.Traits { return broker.Traits{Name: "memory", Local: true} }

// Add implements broker.PresenceManager. info must not be changed afterwards.
func (p *Presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	s, now, err := p.enter(ctx, ch)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	ms := s.channels.get(ch)
	if ms == nil {
		ms = &members{channel: ch}
		s.channels.set(ch, ms)
	}
	m := ms.clients.get(info.Client)
	if m == nil {
		m = &member{of: ms, client: info.Client}
		ms.clients.set(m.client, m)
	} else {
		s.unlist(m)
		ms.count(m.info.User, -1)
	}
	m.info, m.expireAt = info, after(now, time.Duration(p.ttl))
	ms.count(info.User, 1)
	s.append(m)
	p.arm(time.Duration(p.ttl))
	return nil
}

// Remove implements broker.PresenceManager. It knows the user from Add.
func (p *Presence) Remove(ctx context.Context, ch, client, _ string) error {
	s, _, err := p.enter(ctx, ch)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if ms := s.channels.get(ch); ms != nil {
		if m := ms.clients.get(client); m != nil {
			s.drop(m)
		}
	}
	return nil
}

// Presence implements broker.PresenceManager. The map belongs to the caller; the infos are shared and must not be
// changed.
func (p *Presence) Presence(ctx context.Context, ch string) (map[string]*channel.ClientInfo, error) {
	s, _, err := p.enter(ctx, ch)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	ms := s.channels.get(ch)
	if ms == nil {
		return map[string]*channel.ClientInfo{}, nil
	}
	infos := make(map[string]*channel.ClientInfo, len(ms.clients.m))
	for client, m := range ms.clients.m {
		infos[client] = m.info
	}
	return infos, nil
}

// Stats implements broker.PresenceManager. Its cost does not depend on the number of clients.
func (p *Presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	s, _, err := p.enter(ctx, ch)
	if err != nil {
		return broker.PresenceStats{}, err
	}
	defer s.mu.Unlock()
	ms := s.channels.get(ch)
	if ms == nil {
		return broker.PresenceStats{}, nil
	}
	return broker.PresenceStats{Clients: len(ms.clients.m), Users: len(ms.users.m)}, nil
}

// enter removes expired entries.
func (p *Presence) enter(ctx context.Context, ch string) (s *presenceStripe, now int64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	s = &p.stripes[maphash.String(p.seed, ch)%presenceStripeCount]
	s.mu.Lock()
	now = int64(time.Since(p.start))
	s.expire(now)
	return s, now, nil
}

func (p *Presence) arm(wait time.Duration) {
	if !p.armed.Load() && p.armed.CompareAndSwap(false, true) {
		time.AfterFunc(wait, p.sweep)
	}
}

func (p *Presence) sweep() {
	p.armed.Store(false) // from here on, Add arms the timer
	now := int64(time.Since(p.start))
	var next int64
	for i := range p.stripes {
		s := &p.stripes[i]
		s.mu.Lock()
		s.expire(now)
		if s.oldest != nil && (next == 0 || s.oldest.expireAt < next) {
			next = s.oldest.expireAt
		}
		s.mu.Unlock()
	}
	if next != 0 {
		p.arm(max(time.Duration(next-now), time.Second))
	}
}

func (s *presenceStripe) expire(now int64) {
	for s.oldest != nil && s.oldest.expireAt <= now {
		s.drop(s.oldest)
	}
}

func (s *presenceStripe) drop(m *member) {
	s.unlist(m)
	m.of.count(m.info.User, -1)
	m.of.clients.delete(m.client)
	if len(m.of.clients.m) == 0 {
		s.channels.delete(m.of.channel)
	}
}

func (ms *members) count(user string, by int) {
	if n := ms.users.get(user) + by; n > 0 {
		ms.users.set(user, n)
	} else {
		ms.users.delete(user)
	}
}

func (s *presenceStripe) append(m *member) {
	m.older, m.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = m
	} else {
		s.oldest = m
	}
	s.newest = m
}

func (s *presenceStripe) unlist(m *member) {
	if m.older != nil {
		m.older.newer = m.newer
	} else {
		s.oldest = m.newer
	}
	if m.newer != nil {
		m.newer.older = m.older
	} else {
		s.newest = m.older
	}
	m.older, m.newer = nil, nil
}
