package schema

import "math/bits"

// ShardOf returns the shard of a channel among n: what PREFIX_stream_shard returns.
func ShardOf(ch string, n int) int {
	h := int64(int32(HashText(ch)))
	if h < 0 {
		h = -h
	}
	return int(h % int64(n))
}

// HashText is hashtext on little-endian servers: lookup3 by Bob Jenkins, as PostgreSQL seeds it.
func HashText(s string) uint32 {
	a := 0x9e3779b9 + uint32(len(s)) + 3923095
	b, c := a, a
	for len(s) >= 12 {
		a, b, c = mix(a+word(s), b+word(s[4:]), c+word(s[8:]))
		s = s[12:]
	}
	var tail [12]byte
	copy(tail[:], s)
	rest := string(tail[:])
	return final(a+word(rest), b+word(rest[4:]), c+word(rest[8:])<<8)
}

func word(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func mix(a, b, c uint32) (uint32, uint32, uint32) {
	a = (a - c) ^ bits.RotateLeft32(c, 4)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 6)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 8)
	b += a
	a = (a - c) ^ bits.RotateLeft32(c, 16)
	c += b
	b = (b - a) ^ bits.RotateLeft32(a, 19)
	a += c
	c = (c - b) ^ bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

func final(a, b, c uint32) uint32 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}
