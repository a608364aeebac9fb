package gyro

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/internal/drain"
	"github.com/gyrohq/gyro/protocol"
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
	return drain.Run(ctx, over, len(n.shards), func(portion drain.Portion) (int, error) {
		var left atomic.Int64
		err := n.onLoops(ctx, func(s *shard) {
			s.drain(portion(s.index, s.connections))
			left.Add(int64(s.connections))
		})
		return int(left.Load()), err
	})
}

// drain disconnects the first so many connections because the node shuts down.
func (s *shard) drain(most int) {
	for c := s.first; c != nil && most > 0; most-- {
		next := c.next
		c.contained(func() { c.session.Dismiss(protocol.DisconnectShutdown) })
		c = next
	}
}
