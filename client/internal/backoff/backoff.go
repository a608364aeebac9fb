// Package backoff computes the time between attempts.
package backoff

import "time"

// Pause is the time after so many failures, to which it adds one. It is least, and a random part of as much again, which
// doubles with each failure, up to most. random returns a number in [0, 1).
func Pause(least, most time.Duration, failed *int, random func() float64) time.Duration {
	span := min(most, least<<min(*failed, 16))
	*failed++
	return min(most, least+time.Duration(random()*float64(span)))
}
