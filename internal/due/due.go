// Package due is the arithmetic of deadlines: moments in nanoseconds of the Unix epoch, 0
// for none.
package due

import "time"

// Earliest of two deadlines.
func Earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Take reports whether a deadline has passed and clears it.
func Take(deadline *int64, now int64) bool {
	if *deadline == 0 || *deadline > now {
		return false
	}
	*deadline = 0
	return true
}

// leastBeat is how exactly the owners of timers keep deadlines.
const leastBeat = int64(50 * time.Millisecond)

// beatOf is the distance of the moments at which what is done once per interval is due.
// An idle node wakes up at these only, and finds the answers of many clients at once.
// The fewer, the better: the code that pings is warm from the second client on.
func beatOf(interval int64) int64 {
	switch {
	case interval >= int64(10*time.Second):
		return int64(time.Second)
	case interval >= int64(time.Second):
		return int64(250 * time.Millisecond)
	}
	return leastBeat
}

// Next is the moment on the beat that is nearest to one interval from now. (Not the next
// one: what is due is done a little late, and would be later each time.)
func Next(now int64, interval time.Duration) int64 {
	beat := beatOf(int64(interval))
	return max(now+int64(interval)+beat/2, now+beat) / beat * beat
}

// First is the moment on the beat at which a session that starts now is first looked at:
// one from the second half of the interval. phase(n) picks one of n, and so that sessions
// of the same phase are due together.
func First(now int64, interval time.Duration, phase func(n int64) int64) int64 {
	beat := beatOf(int64(interval))
	first := (now + int64(interval)/2 + beat - 1) / beat
	n := max(int64(interval)/2/beat, 1)
	behind := (phase(n) - first%n + n) % n
	return (first + behind) * beat
}
