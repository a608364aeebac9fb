// Package backoff computes the time between attempts.
package backoff

import "time"

// Pause returns the time to wait after so many failures, and adds one to them: least and a random part of a span, which
// is least at first and doubles with each failure. The sum is at most most. random returns a number in [0, 1).
func Pause(least, most time.Duration, failed *int, random func() float64) time.Duration {
	span := min(most, least<<min(*failed, 16))
	*failed++
	return min(most, least+time.Duration(random()*float64(span)))
}
