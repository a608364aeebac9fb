package enginekit

import (
	"cmp"
	"time"

	"github.com/gyrohq/gyro/channel"
)

// Stamp sets Offset to 0, and Time to now unless there is one. It does not write a value that is right already, because
// several items of a batch may share the publication.
func Stamp(pub *channel.Publication, now time.Time) {
	if pub.Offset != 0 {
		pub.Offset = 0
	}
	if pub.Time == 0 {
		pub.Time = now.UnixMilli()
	}
}

// PositiveOr returns a value if it is positive, otherwise the default.
func PositiveOr[T cmp.Ordered](value, byDefault T) T {
	var zero T
	if value > zero {
		return value
	}
	return byDefault
}

// EpochSize is the length of an epoch.
const EpochSize = 8

// AppendEpoch appends EpochSize letters, never "_", which clients use for a position that they know to be invalid.
func AppendEpoch(dst []byte, random uint64) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for range EpochSize {
		dst = append(dst, letters[random%uint64(len(letters))])
		random /= uint64(len(letters))
	}
	return dst
}
