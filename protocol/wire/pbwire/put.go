package pbwire

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The Put functions write before index i and return the index of the first byte that they wrote: a message is written
// from its end to its beginning, so its length is known when it is to be written.

// PutVarint writes v.
func PutVarint(buf []byte, i int, v uint64) int {
	if v < 0x80 {
		i--
		buf[i] = byte(v)
		return i
	}
	return putLong(buf, i, v)
}

func putLong(buf []byte, i int, v uint64) int {
	i -= SizeVarint(v)
	at := i
	for ; v >= 0x80; v >>= 7 {
		buf[at] = byte(v) | 0x80
		at++
	}
	buf[at] = byte(v)
	return i
}

// PutString writes s after its length.
func PutString(buf []byte, i int, s string) int {
	i -= len(s)
	copy(buf[i:], s)
	return PutVarint(buf, i, uint64(len(s)))
}

// PutBytes writes p after its length.
func PutBytes(buf []byte, i int, p []byte) int {
	i -= len(p)
	copy(buf[i:], p)
	return PutVarint(buf, i, uint64(len(p)))
}

// PutDouble writes v.
func PutDouble(buf []byte, i int, v float64) int {
	i -= 8
	binary.LittleEndian.PutUint64(buf[i:], math.Float64bits(v))
	return i
}

// SizeVarint returns the number of bytes of v: one for each seven bits. For up to 64 bits, 9/64 is near enough to 1/7,
// and needs no division.
func SizeVarint(v uint64) int { return int(9*uint(bits.Len64(v|1))+64) / 64 }

// SizeBytes is the size of n bytes with their length.
func SizeBytes(n int) int { return SizeVarint(uint64(n)) + n }

// Zigzag returns the number as which a sint64 is written.
func Zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }
