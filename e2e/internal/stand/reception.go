package stand

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/e2e/internal/wire"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

const rooms = 3

// reception keeps the guests of each room, a channel with presence.
type reception struct {
	mu     sync.Mutex
	stays  map[string]*stay // by client ID
	deaths map[int]int      // of nodes
}

type stay struct {
	room string
	node int
	life int // how often the node had died before
	left time.Time
	how  string
	// excused: Redis went back after the client had left, so the presence entry may be there until it expires.
	excused bool
}

func room(i int) string { return fmt.Sprintf("room:%d", i) }

func (r *reception) life(node int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deaths[node]
}

func (r *reception) arrived(id, room string, node, life int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stays == nil {
		r.stays = make(map[string]*stay)
	}
	r.stays[id] = &stay{room: room, node: node, life: life}
}

func (r *reception) left(id, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.stays[id]; st.left.IsZero() {
		st.left, st.how = time.Now(), how
	}
}

// died: a dead node cannot remove the presence entries of its clients.
func (r *reception) died(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaths == nil {
		r.deaths = make(map[int]int)
	}
	r.deaths[node]++
}

func (r *reception) wentBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.stays {
		st.excused = st.excused || !st.left.IsZero()
	}
}

// compare returns the faults in a room's presence.
func (r *reception) compare(room string, present map[string]struct{}, clock func(time.Time) string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var wrong []string
	for id := range present {
		switch st := r.stays[id]; {
		case st == nil:
			wrong = append(wrong, fmt.Sprintf("%s lists %s, who was never there", room, id))
		case st.room != room:
			wrong = append(wrong, fmt.Sprintf("%s lists %s, who is in %s", room, id, st.room))
		case !st.left.IsZero() && !st.excused && st.life == r.deaths[st.node]:
			wrong = append(wrong, fmt.Sprintf("%s lists %s, who left node %d at %s: %s", room, id, st.node, clock(st.left), st.how))
		}
	}
	for id, st := range r.stays {
		if _, listed := present[id]; !listed && st.room == room && st.left.IsZero() {
			wrong = append(wrong, fmt.Sprintf("%s does not list %s, who is at node %d", room, id, st.node))
		}
	}
	return wrong
}

func (s *Stand) receive(work *sync.WaitGroup) {
	addrs := rotated(s.Nodes, 0)
	for range s.opts.Guests {
		work.Go(func() {
			for s.ctx.Err() == nil {
				s.guest(addrs)
			}
		})
	}
}

func (s *Stand) guest(addrs []string) {
	node, ch := rand.IntN(len(addrs)), room(rand.IntN(rooms))
	v := s.enter(addrs[node], ch, node)
	if v == nil {
		wire.Sleep(s.ctx, 100*time.Millisecond)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	go func() {
		<-v.over
		s.reception.left(v.id, fmt.Sprintf("connection ended (%v)", account.Brief(v.end)))
		cancel()
	}()
	wire.Sleep(ctx, 200*time.Millisecond+rand.N(3*time.Second))
	s.still.RLock()
	defer s.still.RUnlock()
	if rand.IntN(2) == 0 && ctx.Err() == nil {
		if _, err := v.do(fmt.Sprintf(`"unsubscribe":{"channel":%q}`, ch)); err == nil {
			s.reception.left(v.id, "unsubscribed")
		}
		wire.Sleep(ctx, rand.N(300*time.Millisecond))
	}
	v.leave()
	<-v.over
	s.reception.left(v.id, "connection closed")
}

// enter returns nil if the guest could not connect or subscribe.
func (s *Stand) enter(addr, ch string, node int) *visitor {
	s.still.RLock()
	defer s.still.RUnlock()
	life := s.reception.life(node)
	v, err := s.visit(s.ctx, addr, "guest", func(*reply) {})
	if err != nil {
		return nil
	}
	s.reception.arrived(v.id, ch, node, life)
	if _, err := v.do(fmt.Sprintf(`"subscribe":{"channel":%q}`, ch)); err != nil {
		v.leave()
		s.reception.left(v.id, fmt.Sprintf("subscription failed: %v", err))
		return nil
	}
	return v
}

// present waits until all nodes list exactly the guests of each room, and returns the remaining faults. The caller has
// locked s.still.
func (s *Stand) present(limit time.Duration) (wrong []string) {
	wait.Within(limit, func() bool { wrong = s.missingGuests(); return len(wrong) == 0 })
	return wrong
}

func (s *Stand) missingGuests() (wrong []string) {
	for i := range rooms {
		for n, node := range s.Nodes {
			var result struct{ Presence map[string]struct{} }
			ctx, cancel := context.WithTimeout(s.ctx, s.opts.AnswerLimit)
			err := node.API(ctx, "presence", map[string]any{"channel": room(i)}, &result)
			cancel()
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("presence of %s at node %d: %v", room(i), n, err))
				continue
			}
			wrong = append(wrong, s.reception.compare(room(i), result.Presence, s.clock)...)
		}
	}
	return wrong
}
