package stand

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/e2e/internal/account"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// endLimit bounds the time, once all nodes are fit again, until acknowledged commands are executed and presence lists
// are right. It is well below the TTL of a presence entry, so expiration cannot make a list right.
const endLimit = 20 * time.Second

// Outcome has the faults that remain once all faults of the cluster have ended.
type Outcome struct {
	Orders
	// Back is how long it took until all subscribers got publications again.
	Back time.Duration
	// Stays is how many guests came, and Presence the faults in the lists of guests.
	Stays    int
	Presence []string
	// Streams are publications that histories have twice.
	Streams []string
}

// End waits, once all faults of the cluster have ended, and returns the remaining faults. It can be called once:
// visitors neither come nor go afterwards.
func (s *Stand) End() Outcome {
	s.tb.Helper()
	start := time.Now()
	s.await("the health of all nodes", s.fit)
	s.Flow()
	back := time.Since(start)
	s.still.Lock()
	s.tb.Cleanup(s.still.Unlock)
	v := Outcome{Back: back}
	var owed []string
	wait.Within(endLimit, func() bool { owed = s.orders.owed(s.reception.life); return len(owed) == 0 })
	s.orders.end()
	v.Presence = s.present(endLimit)
	slices.Sort(v.Presence)
	v.Presence = slices.Compact(v.Presence) // several nodes may have the same wrong list
	s.Flow()
	v.Streams = s.twice()
	v.Orders = s.orders.read()
	v.Wrong = append(v.Wrong, owed...)
	s.reception.mu.Lock()
	defer s.reception.mu.Unlock()
	v.Stays = len(s.reception.stays)
	return v
}

func (s *Stand) KillNode(i int) {
	s.Nodes[i].Kill()
	s.reception.died(i)
}

// WentBack notes that Redis has older data. A removed presence entry may be there again until it expires: no client is
// left that would remove it.
func (s *Stand) WentBack() { s.reception.wentBack() }

func (s *Stand) CutSDKs() {
	for _, p := range s.relays {
		p.Cut()
	}
}

// twice returns the numbers that a history has twice.
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
			var content account.Payload
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
