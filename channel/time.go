package channel

import "time"

// farthest is the end of the year 9999, in seconds of the Unix epoch. The comparison of much
// later times overflows.
const farthest = 253402300799

// FromUnix is the time that clients, tokens and other nodes name in seconds of the Unix
// epoch: the zero time, which stands for never, if that is not positive, and the end of the
// year 9999 at the latest.
func FromUnix(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(min(seconds, farthest), 0)
}

// ToUnix undoes FromUnix: it is 0 for the zero time, and at least 1 for any other. Fractions
// of a second are cut off.
func ToUnix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.Unix(), 1)
}
