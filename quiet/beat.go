package quiet

import (
	"math/rand/v2"
	"time"
)

// shift is the time from the clock's full seconds to the beats of this process. Processes that share a machine must not
// all act at once.
var shift = rand.Int64N(int64(time.Second))

// UntilBeat returns how long to wait until the next run of a job that repeats after a period: more than half of the
// period, at most one and a half, and exactly one if the last run was on time. All jobs of the process that wait so run
// at the same moments, because a wake-up costs an idle process more than the job. Beats of 500 ms, 1 s and 2 s
// coincide; beats of another period coincide only with beats of the same period. The period must be positive.
func UntilBeat(period time.Duration) time.Duration {
	now := time.Now().UnixNano() - shift
	next := (now + int64(period) + int64(period)/2) / int64(period) * int64(period) // the nearest beat to one period from now
	return time.Duration(next - now)
}
