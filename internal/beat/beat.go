// Package beat is the arithmetic of deadlines, and of beats: the moments that repeated work shares. A wake-up costs an
// idle process more than the work that follows. A process has a beat for its own work (Until), a node one for its clients
// (Of), and a cluster the full seconds of its clock, and parts of them (the zero Beat). Deadlines are in nanoseconds since
// the Unix epoch; 0 is no deadline.
package beat

import (
	"hash/fnv"
	"io"
	"math"
	"time"

	"github.com/gyrohq/gyro/internal/random"
)

// Earliest returns the earliest of some deadlines.
func Earliest(deadlines ...int64) (first int64) {
	for _, d := range deadlines {
		if first == 0 || d != 0 && d < first {
			first = d
		}
	}
	return first
}

// Take reports whether a deadline has passed and clears it.
func Take(deadline *int64, now int64) bool {
	if *deadline == 0 || *deadline > now {
		return false
	}
	*deadline = 0
	return true
}

// Beat has moments at multiples of a length, behind the clock's full second by a shift. All work of one moment is done
// in one burst, so processes that share a machine have different shifts.
type Beat struct {
	shift int64 // less than a second
}

// process is the beat of this process's own work.
func process() Beat { return Beat{int64(random.Process() % uint64(time.Second))} }

// Of returns the beat for the clients of a node.
func Of(uid string) Beat {
	h := fnv.New64a()
	_, _ = io.WriteString(h, uid) // a hash returns no error
	return Beat{int64(h.Sum64() % uint64(time.Second))}
}

// Nearest returns the moment, of those at multiples of length, that is nearest to one interval from now. If it rounded up,
// the delay of each action would add to the delay of the action before.
func (b Beat) Nearest(now int64, interval, length time.Duration) int64 {
	n := int64(length)
	return (now-b.shift+int64(interval)+n/2)/n*n + b.shift
}

// Until returns how long to wait until the next run of a job of this process that repeats after a period: more than half of
// the period, at most one and a half, and exactly one if the last run was on time. Jobs with periods of 500 ms, 1 s and 2 s
// run at the same moments; jobs with another period only with those of the same one. The period must be positive.
func Until(period time.Duration) time.Duration {
	now := time.Now().UnixNano()
	return time.Duration(process().Nearest(now, period, period) - now)
}

// leastBeat is the precision of timers: their owners keep deadlines no better than this.
const leastBeat = 50 * time.Millisecond

// lengthOf is the time between moments for clients' actions that repeat after an interval. So an idle node wakes up
// rarely and then finds the answers of many clients: all but the first cost less, as code and data are in the cache.
func lengthOf(interval time.Duration) time.Duration {
	switch {
	case interval >= 10*time.Second:
		return time.Second
	case interval >= time.Second:
		return 250 * time.Millisecond
	}
	return leastBeat
}

// Next returns when an action of a client that repeats after an interval is due: at least one moment from now.
func (b Beat) Next(now int64, interval time.Duration) int64 {
	length := lengthOf(interval)
	return b.Nearest(now, max(interval, length/2), length)
}

// First returns the first deadline of a session that starts now: a moment in the second half of the interval. phase(n)
// returns a number in [0, n), which chooses the moment; sessions with the same phase are due together.
func (b Beat) First(now int64, interval time.Duration, phase func(n int64) int64) int64 {
	length := int64(lengthOf(interval))
	first := (now - b.shift + int64(interval)/2 + length - 1) / length
	n := max(int64(interval)/2/length, 1)
	behind := (phase(n) - first%n + n) % n
	return (first+behind)*length + b.shift
}

// Milliseconds of a time that is not negative, rounded up. More than 49 days count as 49 days.
func Milliseconds(d time.Duration) uint32 {
	return uint32(min((d+time.Millisecond-1)/time.Millisecond, math.MaxUint32))
}
