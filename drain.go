package gyro

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

const (
	// drainPause is the mean time between two portions of a drain.
	drainPause = 50 * time.Millisecond
	// drainLeast is how many clients a portion has at least.
	drainLeast = 8
)

// Drain takes no client any more, and tells those that the node has to leave, spread
// evenly over a time, so that the nodes that they go to are not overrun. They are
// disconnected with 3001 "shutdown", after which clients connect again. A node with
// few clients needs less time: at least some 160 per second are told.
//
// Otherwise the node works as before; Shutdown is what follows. Drain returns when
// no client is left, which takes no longer than over (at once if that is not
// positive), or with the error of ctx when that ends earlier. It may be called with
// Shutdown under way, or more than once: the fastest drain counts.
func (n *Node) Drain(ctx context.Context, over time.Duration) error {
	n.mu.Lock()
	n.closing.Store(true)
	n.mu.Unlock()
	end := time.Now().Add(over)
	timer := time.NewTimer(0)
	defer timer.Stop()
	// owed is what remains of each loop's portions below one client.
	owed := make([]float64, len(n.shards))
	for share := 0.0; ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var left atomic.Int64
		err := n.onLoops(ctx, func(s *shard) {
			due := owed[s.index] + share*float64(s.connections)
			s.drain(int(due))
			owed[s.index] = due - math.Floor(due)
			left.Add(int64(s.connections))
		})
		if err != nil || left.Load() == 0 {
			return err
		}
		portions := float64(time.Until(end)) / float64(drainPause)
		if share = 1; portions > 1 {
			share = min(1, max(1/portions, drainLeast/float64(left.Load())))
		}
		if over <= 0 {
			timer.Reset(0)
			continue
		}
		// Nodes that are drained together, and their clients, are not to fall into step.
		timer.Reset(drainPause/2 + rand.N(drainPause))
	}
}

// drain disconnects the first so many connections because the node shuts down.
func (s *shard) drain(most int) {
	for c := s.first; c != nil && most > 0; most-- {
		next := c.next
		c.session.Dismiss(protocol.DisconnectShutdown)
		c = next
	}
}
