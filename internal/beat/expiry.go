package beat

import "time"

// Connections and subscriptions expire at Unix times in seconds; 0 is never.

// maxTTL caps expirations.
const maxTTL = int64(365 * 24 * time.Hour / time.Second)

// TTL is the number of seconds from now, in nanoseconds, until an expiration.
func TTL(now, expireAt int64) int64 { return expireAt - now/int64(time.Second) }

// Remaining returns the fields of a result about an expiration: whether there is one, and the seconds until then, at
// least 1.
func Remaining(now, expireAt int64) (expires bool, ttl uint32) {
	if expireAt == 0 {
		return false, 0
	}
	return true, uint32(max(1, TTL(now, expireAt)))
}

// CapExpiry bounds an expiration to a year from now. It returns 0 for 0 and less.
func CapExpiry(now, expireAt int64) int64 {
	if expireAt <= 0 {
		return 0
	}
	return min(expireAt, now/int64(time.Second)+maxTTL)
}
