// Package drain spreads the end of many connections over a time.
package drain

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// pause is the mean time between two rounds.
	pause = 50 * time.Millisecond
	// least is the least number of connections that end in a round.
	least = 8
)

// Portion returns how many of a loop's connections have to end in this round. Loops may
// call it concurrently, each for itself.
type Portion func(loop, connections int) int

// Run ends the connections of all loops, spread evenly over a time, but at least some 160
// per second. It calls round again and again: round ends a portion of each loop's
// connections and returns how many connections are left. Run returns nil when none are
// left, and else the error of round or of ctx.
func Run(ctx context.Context, over time.Duration, loops int, round func(Portion) (left int, err error)) error {
	end := time.Now().Add(over)
	timer := time.NewTimer(0)
	defer timer.Stop()
	// owed is, for each loop, the fraction of a connection that rounding left over.
	owed := make([]float64, loops)
	// share of the remaining connections that ends in a round. The first round only counts.
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
		if rounds := float64(time.Until(end)) / float64(pause); rounds > 1 {
			share = min(1, max(1/rounds, least/float64(left)))
		}
		if over <= 0 {
			timer.Reset(0)
			continue
		}
		// The random part keeps nodes that are drained together from acting in step.
		timer.Reset(pause/2 + rand.N(pause))
	}
}
