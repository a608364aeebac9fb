// Package beat is the arithmetic of deadlines, and of the beat: the moments when repeated actions of a node are due.
// Deadlines are in nanoseconds since the Unix epoch; 0 is no deadline.
package beat

import (
	"hash/fnv"
	"io"
	"math"
	"time"
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

// leastBeat is the precision of timers: their owners keep deadlines no better than this.
const leastBeat = int64(50 * time.Millisecond)

// lengthOf returns the time between two moments of the beat. Actions that repeat after an
// interval are due on such moments only. So an idle node wakes up rarely and then finds the
// answers of many clients: all but the first cost less, as code and data are in the cache.
func lengthOf(interval int64) int64 {
	switch {
	case interval >= int64(10*time.Second):
		return int64(time.Second)
	case interval >= int64(time.Second):
		return int64(250 * time.Millisecond)
	}
	return leastBeat
}

// Beat has the moments when the repeated actions of a node are due. The zero Beat has full seconds of the clock, and
// parts of them.
type Beat struct {
	shift int64 // from the clock's moments to the node's, less than a second
}

// Of returns the beat of a node. Nodes have different beats: all actions of one moment are done in one burst, and nodes
// that share a machine would have their bursts at the same time.
func Of(uid string) Beat {
	h := fnv.New64a()
	_, _ = io.WriteString(h, uid) // a hash returns no error
	return Beat{int64(h.Sum64() % uint64(time.Second))}
}

// Next returns the moment on the beat that is nearest to one interval from now. If Next rounded up, the delay of each
// action would add to the delay of the action before.
func (b Beat) Next(now int64, interval time.Duration) int64 {
	beat := lengthOf(int64(interval))
	now -= b.shift
	return max(now+int64(interval)+beat/2, now+beat)/beat*beat + b.shift
}

// First returns the first deadline of a session that starts now: a moment on the beat in
// the second half of the interval. phase(n) returns a number in [0, n), which chooses the
// moment; sessions with the same phase are due together.
func (b Beat) First(now int64, interval time.Duration, phase func(n int64) int64) int64 {
	beat := lengthOf(int64(interval))
	first := (now - b.shift + int64(interval)/2 + beat - 1) / beat
	n := max(int64(interval)/2/beat, 1)
	behind := (phase(n) - first%n + n) % n
	return (first+behind)*beat + b.shift
}

// Milliseconds of a time that is not negative, rounded up. More than 49 days count as 49 days.
func Milliseconds(d time.Duration) uint32 {
	return uint32(min((d+time.Millisecond-1)/time.Millisecond, math.MaxUint32))
}
