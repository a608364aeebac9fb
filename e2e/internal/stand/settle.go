package stand

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// settleLimit bounds how long acknowledged commands and the presence of those who
// came and left may take to be true, once all nodes are fit again. It is well below
// the life of a presence entry, which must not be what cleans up.
const settleLimit = 20 * time.Second

// Verdict is what the visitors' books say, once everything is over.
type Verdict struct {
	Orders
	// Back is how long it took until publications came to everybody again.
	Back time.Duration
	// Stays is how many guests came, and Presence what is wrong with the lists of them.
	Stays    int
	Presence []string
	// Streams are publications that histories hold twice.
	Streams []string
}

// Settled waits, once all faults have ended, until what was acknowledged holds, and
// says what does not. No visitor comes or goes then: it can be called once.
func (s *Stand) Settled() Verdict {
	s.tb.Helper()
	start := time.Now()
	s.await("the health of all nodes", s.fit)
	s.Flow()
	back := time.Since(start)
	s.still.Lock()
	s.tb.Cleanup(s.still.Unlock)
	v := Verdict{Back: back}
	owed := s.orders.owed(s.reception.life)
	for deadline := time.Now().Add(settleLimit); len(owed) > 0 && time.Now().Before(deadline); owed = s.orders.owed(s.reception.life) {
		time.Sleep(10 * time.Millisecond)
	}
	s.orders.settle()
	v.Presence = s.present(settleLimit)
	slices.Sort(v.Presence)
	v.Presence = slices.Compact(v.Presence) // all nodes say the same
	s.Flow()
	v.Streams = s.twice()
	v.Orders = s.orders.read()
	v.Wrong = append(v.Wrong, owed...)
	s.reception.mu.Lock()
	defer s.reception.mu.Unlock()
	v.Stays = len(s.reception.stays)
	return v
}

// KillNode kills node i.
func (s *Stand) KillNode(i int) {
	s.Nodes[i].Kill()
	s.reception.died(i)
}

// WentBack says that Redis has older data than it had. A presence that ended since may
// have come back, until it expires: nobody is left who renews it, or who would end it.
func (s *Stand) WentBack() { s.reception.wentBack() }

// CutSDKs breaks the connections of the SDKs.
func (s *Stand) CutSDKs() {
	for _, p := range s.relays {
		p.Cut()
	}
}

// twice reads all streams and names the numbers that are in one of them twice.
func (s *Stand) twice() (wrong []string) {
	if s.opts.AtMostOnce {
		return nil
	}
	for i := range s.opts.Channels {
		var result struct{ Publications []publication }
		ctx, cancel := context.WithTimeout(s.ctx, s.opts.AnswerLimit)
		err := s.Nodes[0].API(ctx, "history", map[string]any{"channel": s.channel(i), "limit": -1}, &result)
		cancel()
		if err != nil {
			return append(wrong, fmt.Sprintf("history of %s: %v", s.channel(i), err))
		}
		at := make(map[int64]uint64)
		for _, p := range result.Publications {
			var content payload
			if err := json.Unmarshal(p.Data, &content); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s has %q at the offset %d", s.channel(i), p.Data, p.Offset))
			}
			if first, found := at[content.N]; found {
				wrong = append(wrong, fmt.Sprintf("%s has number %d at the offsets %d and %d", s.channel(i), content.N, first, p.Offset))
			}
			at[content.N] = p.Offset
		}
	}
	return wrong
}
