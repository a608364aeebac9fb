// Package delta makes and applies Fossil deltas (recovery.md 9.6): a target is
// described as copies of parts of a base, and inserted bytes.
package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// blockSize is the length of the parts of the base that matches are found by. A
// shorter base yields one insert.
const blockSize = 16

// maxChain is how many blocks of equal hash are compared. It bounds the work on
// repetitive bases.
const maxChain = 16

// Append appends the delta that turns base into target. The result may be longer
// than target if the two have little in common. It does not keep its arguments.
func Append(dst, base, target []byte) []byte {
	dst = appendInt(dst, uint64(len(target)))
	dst = append(dst, '\n')
	if len(base) > blockSize && len(target) >= blockSize {
		ix := indexes.Get().(*index)
		ix.build(base)
		dst = ix.encode(dst, base, target)
		indexes.Put(ix)
	} else {
		dst = appendInsert(dst, target)
	}
	dst = appendInt(dst, uint64(checksum(target)))
	return append(dst, ';')
}

// index finds the blocks of a base by their hash.
type index struct {
	heads []int32 // by hash: number of a block plus one
	next  []int32 // by block: the next one of the same hash, plus one
	mask  uint32
}

var indexes = sync.Pool{New: func() any { return new(index) }}

// keepBlocks is the size of the largest index that is kept for later.
const keepBlocks = 1 << 16

func (ix *index) build(base []byte) {
	blocks := len(base) / blockSize
	size := 1 << bits.Len(uint(blocks))
	if cap(ix.heads) < size || cap(ix.heads) > keepBlocks && size <= keepBlocks {
		ix.heads, ix.next = make([]int32, size), make([]int32, size)
	}
	ix.heads, ix.next, ix.mask = ix.heads[:size], ix.next[:blocks], uint32(size-1)
	clear(ix.heads)
	// From the last to the first, so that a chain begins with the first.
	for b := blocks - 1; b >= 0; b-- {
		h := hash(sums(base[b*blockSize:])) & ix.mask
		ix.next[b] = ix.heads[h]
		ix.heads[h] = int32(b) + 1
	}
}

// sums are those of a rolling hash: of the bytes, and of the bytes weighted by
// their distance from the end.
func sums(p []byte) (a, b uint32) {
	for i, c := range p[:blockSize] {
		a += uint32(c)
		b += uint32(blockSize-i) * uint32(c)
	}
	return a, b
}

func hash(a, b uint32) uint32 {
	h := a*0x9E3779B1 ^ b*0x85EBCA6B
	return h ^ h>>15
}

// match is a part that base and target have in common.
type match struct{ from, to, length int }

// encode walks the target: where a block of the base begins, it copies as much as
// agrees on both sides of it.
func (ix *index) encode(dst, base, target []byte) []byte {
	start := 0 // of what is not encoded yet
	i := 0
	a, b := sums(target)
	for {
		if m := ix.find(base, target, start, i, hash(a, b)&ix.mask); m.length > copyCost(m) {
			dst = appendInsert(dst, target[start:m.to])
			dst = appendInt(dst, uint64(m.length))
			dst = append(dst, '@')
			dst = appendInt(dst, uint64(m.from))
			dst = append(dst, ',')
			start = m.to + m.length
			if i = start; i+blockSize > len(target) {
				break
			}
			a, b = sums(target[i:])
			continue
		}
		if i+blockSize >= len(target) {
			break
		}
		out, in := uint32(target[i]), uint32(target[i+blockSize])
		a += in - out
		b += a - blockSize*out
		i++
	}
	return appendInsert(dst, target[start:])
}

// copyCost is the length of the operation that copies m.
func copyCost(m match) int { return intLen(m.length) + intLen(m.from) + 2 }

// find returns the longest match around target[i:], not before start.
func (ix *index) find(base, target []byte, start, i int, h uint32) (best match) {
	block := ix.heads[h]
	for tries := 0; block != 0 && tries < maxChain; tries++ {
		from := int(block-1) * blockSize
		block = ix.next[block-1]
		n := common(base[from:], target[i:])
		if n < blockSize {
			continue
		}
		back := 0
		for from-back > 0 && i-back > start && base[from-back-1] == target[i-back-1] {
			back++
		}
		if n+back > best.length {
			best = match{from: from - back, to: i - back, length: n + back}
		}
	}
	return best
}

// common is the length of the common prefix.
func common(p, q []byte) int {
	n := min(len(p), len(q))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(p[i:]) ^ binary.LittleEndian.Uint64(q[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && p[i] == q[i] {
		i++
	}
	return i
}

func appendInsert(dst, p []byte) []byte {
	if len(p) == 0 {
		return dst
	}
	dst = appendInt(dst, uint64(len(p)))
	dst = append(dst, ':')
	return append(dst, p...)
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

func appendInt(dst []byte, v uint64) []byte {
	for shift := (intLen(int(v)) - 1) * 6; shift >= 0; shift -= 6 {
		dst = append(dst, alphabet[v>>shift&63])
	}
	return dst
}

// intLen is the number of digits of v.
func intLen(v int) int { return max(1, (bits.Len64(uint64(v))+5)/6) }

// checksum is the sum of big-endian words, the last one padded with zeros.
func checksum(p []byte) uint32 {
	var sum uint32
	for ; len(p) >= 4; p = p[4:] {
		sum += binary.BigEndian.Uint32(p)
	}
	for i, c := range p {
		sum += uint32(c) << (24 - 8*i)
	}
	return sum
}

// Errors of Apply, all of which mean that the delta does not fit the base.
var (
	ErrMalformed = errors.New("delta: malformed")
	ErrChecksum  = errors.New("delta: checksum mismatch")
)

// Apply appends to dst the target that delta makes of base; it may have limit
// bytes at most.
func Apply(dst, base, delta []byte, limit int) ([]byte, error) {
	d := decoder{p: delta}
	size := d.int()
	if d.byte() != '\n' || d.bad {
		return dst, fmt.Errorf("%w: no size", ErrMalformed)
	}
	if size > uint64(max(limit, 0)) {
		return dst, fmt.Errorf("delta: target of %d bytes is larger than %d", size, limit)
	}
	start := len(dst)
	for {
		v := d.int()
		op := d.byte()
		if d.bad {
			return dst[:start], fmt.Errorf("%w: ends early", ErrMalformed)
		}
		if op == ';' {
			return d.finish(dst, start, size, v)
		}
		part, err := d.part(op, v, base)
		if err != nil {
			return dst[:start], err
		}
		if uint64(len(dst)-start+len(part)) > size {
			return dst[:start], fmt.Errorf("%w: target is longer than announced", ErrMalformed)
		}
		dst = append(dst, part...)
	}
}

type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if len(d.p) == 0 {
		d.bad = true
		return 0
	}
	c := d.p[0]
	d.p = d.p[1:]
	return c
}

// digits maps characters to digits plus one.
var digits = func() (t [256]byte) {
	for i := range len(alphabet) {
		t[alphabet[i]] = byte(i) + 1
	}
	return t
}()

// int reads one or more digits; d.bad is set if there are none or too many.
func (d *decoder) int() (v uint64) {
	n := 0
	for ; len(d.p) > 0 && digits[d.p[0]] != 0; n++ {
		if v >= 1<<56 {
			d.bad = true
			return 0
		}
		v = v<<6 | uint64(digits[d.p[0]]-1)
		d.p = d.p[1:]
	}
	d.bad = d.bad || n == 0
	return v
}

// part is what a copy or an insert of n bytes yields.
func (d *decoder) part(op byte, n uint64, base []byte) ([]byte, error) {
	switch op {
	case '@':
		from := d.int()
		if d.byte() != ',' || d.bad {
			return nil, fmt.Errorf("%w: copy without end", ErrMalformed)
		}
		if from > uint64(len(base)) || n > uint64(len(base))-from {
			return nil, fmt.Errorf("%w: copy beyond the base", ErrMalformed)
		}
		return base[from : from+n], nil
	case ':':
		if n > uint64(len(d.p)) {
			return nil, fmt.Errorf("%w: insert beyond the end", ErrMalformed)
		}
		part := d.p[:n]
		d.p = d.p[n:]
		return part, nil
	}
	return nil, fmt.Errorf("%w: unknown operator %q", ErrMalformed, op)
}

func (d *decoder) finish(dst []byte, start int, size, sum uint64) ([]byte, error) {
	target := dst[start:]
	switch {
	case len(d.p) > 0:
		return dst[:start], fmt.Errorf("%w: bytes behind the end", ErrMalformed)
	case uint64(len(target)) != size:
		return dst[:start], fmt.Errorf("%w: target is shorter than announced", ErrMalformed)
	case uint64(checksum(target)) != sum:
		return dst[:start], ErrChecksum
	}
	return dst, nil
}
