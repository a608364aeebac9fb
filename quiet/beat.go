package quiet

import (
	"math/rand/v2"
	"time"
)

// shift is from the clock's full seconds to those of this process. Processes that share a machine must not all act at once.
var shift = rand.Int64N(int64(time.Second))

// UntilBeat returns how long to wait for what repeats after a period: more than half of it, and at most one and a half,
// but exactly one period for who calls it on time. Whoever waits so, anywhere in the process, acts at the same moments:
// a wake-up costs an idle process more than what it does then. Beats of 500 ms, 1 s and 2 s coincide, those of other
// periods only with their own. The period must be positive.
func UntilBeat(period time.Duration) time.Duration {
	now := time.Now().UnixNano() - shift
	next := (now + int64(period) + int64(period)/2) / int64(period) * int64(period) // the nearest beat to one period from now
	return time.Duration(next - now)
}
