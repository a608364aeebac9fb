package stand

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// rooms are the channels that guests come to.
const rooms = 3

// reception is the book of who is present: which clients are in which room.
type reception struct {
	mu     sync.Mutex
	stays  map[string]*stay // by client ID
	deaths map[int]int      // of nodes
}

// stay of a client in a room.
type stay struct {
	room string
	node int
	life int // deaths of the node before
	// left is zero while the client is there.
	left time.Time
	how  string
	// excused is set if Redis went back to older data since: the entry may be there again,
	// until it expires.
	excused bool
}

func room(i int) string { return fmt.Sprintf("room:%d", i) }

// life of a node: how often it died so far.
func (r *reception) life(node int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deaths[node]
}

// arrived notes a client that is about to be present.
func (r *reception) arrived(id, room string, node, life int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stays == nil {
		r.stays = make(map[string]*stay)
	}
	r.stays[id] = &stay{room: room, node: node, life: life}
}

// left notes that a client is not present any more.
func (r *reception) left(id, how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if st := r.stays[id]; st.left.IsZero() {
		st.left, st.how = time.Now(), how
	}
}

// died notes that a node died, which cannot take back any more who is present.
func (r *reception) died(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaths == nil {
		r.deaths = make(map[int]int)
	}
	r.deaths[node]++
}

// wentBack notes that who has left may be present again.
func (r *reception) wentBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.stays {
		st.excused = st.excused || !st.left.IsZero()
	}
}

// compare returns what is wrong with a list of who is in a room.
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

// receive has guests come and go.
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

// guest comes once, stays for a while and leaves.
func (s *Stand) guest(addrs []string) {
	node, ch := rand.IntN(len(addrs)), room(rand.IntN(rooms))
	v := s.enter(addrs[node], ch, node)
	if v == nil {
		wait(s.ctx, 100*time.Millisecond)
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	go func() {
		<-v.over
		s.reception.left(v.id, fmt.Sprintf("connection ended (%v)", brief(v.end)))
		cancel()
	}()
	wait(ctx, 200*time.Millisecond+rand.N(3*time.Second))
	s.still.RLock()
	defer s.still.RUnlock()
	if rand.IntN(2) == 0 && ctx.Err() == nil {
		if _, err := v.do(fmt.Sprintf(`"unsubscribe":{"channel":%q}`, ch)); err == nil {
			s.reception.left(v.id, "unsubscribed")
		}
		wait(ctx, rand.N(300*time.Millisecond))
	}
	v.leave()
	<-v.over
	s.reception.left(v.id, "connection closed")
}

// enter has a guest come; nil: it was not let in.
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
		s.reception.left(v.id, fmt.Sprintf("not let in: %v", err))
		return nil
	}
	return v
}

// present waits, at most for the limit, until all nodes list in each room exactly the
// guests who are there, and returns what is wrong then. The caller holds the visitors
// still.
func (s *Stand) present(limit time.Duration) []string {
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		wrong := s.absentees()
		if len(wrong) == 0 || time.Now().After(deadline) {
			return wrong
		}
	}
}

func (s *Stand) absentees() (wrong []string) {
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
