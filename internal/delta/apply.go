package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of Apply, for errors.Is.
var (
	// ErrTooLarge means that the target would exceed the limit.
	ErrTooLarge = errors.New("delta: target is too large")
	// ErrMalformed means that the delta is none, or none for a base of this length.
	ErrMalformed = errors.New("delta: malformed")
	// ErrChecksum means that the delta was made for another base.
	ErrChecksum = errors.New("delta: checksum mismatch")
)

// Apply appends to dst the target that delta makes of base. The target may have
// limit bytes at most, and Apply allocates no more than that for any delta. On
// error it returns dst as it was. It is strict: nothing may follow the delta.
func Apply(dst, base, delta []byte, limit int) ([]byte, error) {
	d := decoder{p: delta}
	size := d.int()
	if d.byte() != '\n' || d.bad {
		return dst, fmt.Errorf("%w: no size", ErrMalformed)
	}
	if size > uint64(max(limit, 0)) {
		return dst, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, limit)
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
