package quiet

import (
	"time"

	"github.com/gyrohq/gyro/internal/beat"
)

// UntilBeat returns how long to wait until the next run of a job that repeats after a period: more than half of the
// period, at most one and a half, and exactly one if the last run was on time. All jobs of the process that wait so run
// at the same moments, because a wake-up costs an idle process more than the job. Beats of 500 ms, 1 s and 2 s
// coincide; beats of another period coincide only with beats of the same period. The period must be positive.
func UntilBeat(period time.Duration) time.Duration { return beat.Until(period) }
