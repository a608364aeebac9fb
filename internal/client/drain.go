package client

import (
	"context"
	"math"
	"time"

	"github.com/gyrohq/gyro/internal/random"
)

const (
	// drainPause is the mean time between rounds.
	drainPause = 50 * time.Millisecond
	// drainLeast is the least number of connections of a round.
	drainLeast = 8
)

// drainPortion returns how many of a loop's connections end in this round. Loops may call it concurrently, each for
// itself.
type drainPortion func(loop, connections int) int

// spreadEnds ends the connections of all loops evenly over a time, but at least some 160 per second. Each call of round
// ends a portion and returns how many connections are left.
func spreadEnds(ctx context.Context, over time.Duration, loops int, round func(drainPortion) (left int, err error)) error {
	end := time.Now().Add(over)
	timer := time.NewTimer(0)
	defer timer.Stop()
	// owed is the fraction of a connection that rounding left over, by loop.
	owed := make([]float64, loops)
	// share of the remaining connections. The first round only counts.
	for share := 0.0; ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		left, err := round(func(loop, connections int) int {
			due := owed[loop] + share*float64(connections)
			owed[loop] = due - math.Floor(due)
			return int(due)
		})
		if err != nil || left == 0 {
			return err
		}
		share = 1
		if rounds := float64(time.Until(end)) / float64(drainPause); rounds > 1 {
			share = min(1, max(1/rounds, drainLeast/float64(left)))
		}
		if over <= 0 {
			timer.Reset(0)
			continue
		}
		// The random part keeps nodes that are drained together out of step.
		timer.Reset(drainPause/2 + random.N(drainPause))
	}
}
