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
	// least is how many connections end in a round at least.
	least = 8
)

// Portion returns how many of the connections of a loop are to end in this round.
// Loops may call it at the same time, each for itself.
type Portion func(loop, connections int) int

// Run ends the connections of so many loops, evenly over a time, but no slower than
// some 160 per second. For each round it calls round, which ends a portion of each
// loop's connections and returns how many are left. Run returns when none is, with
// the error of round, or with that of ctx.
func Run(ctx context.Context, over time.Duration, loops int, round func(Portion) (left int, err error)) error {
	end := time.Now().Add(over)
	timer := time.NewTimer(0)
	defer timer.Stop()
	// owed is what remains of each loop's portions below one connection.
	owed := make([]float64, loops)
	for share := 0.0; ; { // of the connections that are left, which the first round counts
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
		// Nodes that are drained together, and their clients, are not to fall into step.
		timer.Reset(pause/2 + rand.N(pause))
	}
}
