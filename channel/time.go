package channel

import "time"

// farthest is the end of the year 9999, in seconds of the Unix epoch. The comparison of much
// later times overflows.
const farthest = 253402300799

// FromUnix returns the time that clients, tokens and other nodes give in seconds of the
// Unix epoch. Numbers up to 0 make the zero time, which stands for never; times beyond the
// year 9999 become its end.
func FromUnix(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(min(seconds, farthest), 0)
}

// ToUnix undoes FromUnix. It returns 0 for the zero time and at least 1 for any other, and
// cuts off fractions of a second.
func ToUnix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.Unix(), 1)
}
