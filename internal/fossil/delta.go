package fossil

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"unicode/utf8"
)

// Append appends to dst the delta that turns base into target. It may be longer than target if the two have little in
// common. If target is valid UTF-8, so is the delta: no character is split between a copy and an insert. Append takes
// time in proportion to the lengths, and does not allocate if dst has room.
func Append(dst, base, target []byte) []byte {
	dst = appendInt(dst, uint64(len(target)))
	dst = append(dst, '\n')
	e := encoder{dst: dst, base: base, target: target}

	// Most documents differ in one place only. Its two sides are found at once.
	e.copy(match{length: common(base, target)})
	n := commonEnd(base, target[e.done:])
	tail := align(target, match{from: len(base) - n, to: len(target) - n, length: n})
	if tail.length <= tail.cost() {
		tail = match{to: len(target)}
	}
	if tail.to-e.done >= blockSize && len(base) > blockSize {
		ix := indexes.Get().(*index)
		ix.build(base)
		e.search(ix, tail.to)
		if len(ix.next) <= keepBlocks {
			indexes.Put(ix)
		}
	}
	e.copy(tail)
	e.insert(len(target))
	dst = appendInt(e.dst, uint64(checksum(target)))
	return append(dst, ';')
}

type encoder struct {
	dst, base, target []byte
	done              int // up to where target is encoded
}

type match struct{ from, to, length int }

func (m match) cost() int { return intLen(uint64(m.length)) + len("@,") + intLen(uint64(m.from)) }

// copy encodes target up to the end of m, if that is shorter than inserting it.
func (e *encoder) copy(m match) bool {
	m = align(e.target, m)
	if m.length <= m.cost() {
		return false
	}
	e.insert(m.to)
	e.dst = appendInt(e.dst, uint64(m.length))
	e.dst = append(e.dst, '@')
	e.dst = appendInt(e.dst, uint64(m.from))
	e.dst = append(e.dst, ',')
	e.done = m.to + m.length
	return true
}

func (e *encoder) insert(to int) {
	if p := e.target[e.done:to]; len(p) > 0 {
		e.dst = appendInt(e.dst, uint64(len(p)))
		e.dst = append(e.dst, ':')
		e.dst = append(e.dst, p...)
		e.done = to
	}
}

// search encodes target up to end, or somewhat less, by the hash of the bytes from each place on, and extends each match
// to both sides. The longer it finds nothing, the wider its steps. They stay odd, so that among 16 steps through an
// equal part one meets the beginning of a block.
func (e *encoder) search(ix *index, end int) {
	misses := 0
	for i := e.done; i+blockSize <= end; {
		m := ix.find(e.base, e.target[:end], e.done, i)
		if m.length > 0 && e.copy(m) {
			i, misses = e.done, 0
			continue
		}
		i += 1 + misses/patience*2
		misses++
	}
}

// patience is how often search finds nothing before it widens its steps.
const patience = 256

// align shortens m so that it neither begins nor ends within a UTF-8 character of target. It takes a few bytes off what
// is not UTF-8.
func align(target []byte, m match) match {
	for range utf8.UTFMax - 1 {
		if m.length > 0 && !utf8.RuneStart(target[m.to]) {
			m.from++
			m.to++
			m.length--
		}
		if end := m.to + m.length; m.length > 0 && end < len(target) && !utf8.RuneStart(target[end]) {
			m.length--
		}
	}
	return m
}

const blockSize = 16

// maxChain is how many blocks of equal hash are compared, which bounds the work on repetitive bases.
const maxChain = 8

// keepBlocks is the largest index that is kept: of a base of 256 KiB.
const keepBlocks = 1 << 14

// index finds the blocks of a base by their hash.
type index struct {
	heads []int32 // by hash: number of a block plus one
	next  []int32 // by block: the next one of the same hash, plus one
	shift int     // a hash shifted right by it has as many bits as heads needs
}

var indexes = sync.Pool{New: func() any { return new(index) }}

func (ix *index) build(base []byte) {
	blocks := len(base) / blockSize
	width := bits.Len(uint(blocks)) + 1 // at most half full, so that most misses cost one look
	if size := 1 << width; cap(ix.heads) < size {
		ix.heads, ix.next = make([]int32, size), make([]int32, size/2)
	}
	ix.heads, ix.next, ix.shift = ix.heads[:1<<width], ix.next[:blocks], 64-width
	clear(ix.heads)
	// From the last to the first, so that a chain begins with the first: from there the most may follow that is equal.
	for b := blocks - 1; b >= 0; b-- {
		h := ix.hash(base[b*blockSize:])
		ix.next[b] = ix.heads[h]
		ix.heads[h] = int32(b) + 1
	}
}

func (ix *index) hash(p []byte) uint64 {
	low, high := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:blockSize])
	return (low*0x9E3779B97F4A7C15 ^ bits.RotateLeft64(high*0xC2B2AE3D27D4EB4F, 32)) * 0x9E3779B97F4A7C15 >> ix.shift
}

// find returns the longest match around target[i:], not before start.
func (ix *index) find(base, target []byte, start, i int) (best match) {
	block := ix.heads[ix.hash(target[i:])]
	for tries := 0; block != 0 && tries < maxChain; tries++ {
		from := int(block-1) * blockSize
		block = ix.next[block-1]
		ahead := common(base[from:], target[i:])
		if ahead < blockSize {
			continue
		}
		back := commonEnd(base[:from], target[start:i])
		if ahead+back > best.length {
			best = match{from: from - back, to: i - back, length: back + ahead}
		}
	}
	return best
}

func common(p, q []byte) int {
	n := min(len(p), len(q))
	p, q = p[:n], q[:n]
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

func commonEnd(p, q []byte) int {
	n := min(len(p), len(q))
	p, q = p[len(p)-n:], q[len(q)-n:]
	i := n
	for ; i >= 8; i -= 8 {
		if x := binary.LittleEndian.Uint64(p[i-8:]) ^ binary.LittleEndian.Uint64(q[i-8:]); x != 0 {
			return n - i + bits.LeadingZeros64(x)/8
		}
	}
	for i > 0 && p[i-1] == q[i-1] {
		i--
	}
	return n - i
}

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

func appendInt(dst []byte, v uint64) []byte {
	for shift := (intLen(v) - 1) * 6; shift >= 0; shift -= 6 {
		dst = append(dst, alphabet[v>>shift&63])
	}
	return dst
}

// intLen is the number of digits of v.
func intLen(v uint64) int { return max(1, (bits.Len64(v)+5)/6) }

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
