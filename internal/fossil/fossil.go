// Package fossil makes and applies Fossil deltas. A delta describes a target as copies of parts of a base, and inserted
// bytes. The hub makes deltas; the client for Go applies them.
package fossil

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// MaxTarget is the most bytes of a target. A delta of a few bytes could describe gigabytes otherwise.
const MaxTarget = 64 << 20

// Errors of Apply, each for a rule of the format.
var (
	errNumber   = errors.New("delta: a number is expected")
	errCopy     = errors.New("delta: it copies from beyond the end of the base")
	errInsert   = errors.New("delta: it inserts more bytes than it has")
	errSize     = errors.New("delta: the target has another size than the delta says")
	errChecksum = errors.New("delta: the target has another checksum than the delta says, so the base is not the one that the delta was made for")
	errEnd      = errors.New("delta: it has no end")
	errLarge    = fmt.Errorf("delta: the target has more than %d bytes, which is the limit", MaxTarget)
)

// Apply applies a delta to a base. The result is new; base and delta are not kept.
func Apply(base, delta []byte) ([]byte, error) {
	size, rest, err := number(delta, '\n')
	if err != nil {
		return nil, err
	}
	if size > MaxTarget {
		return nil, errLarge
	}
	target := make([]byte, 0, size)
	for {
		op := bytes.IndexAny(rest, "@:;")
		if op < 0 {
			return nil, errEnd
		}
		kind := rest[op]
		var n, from int
		if n, rest, err = number(rest, kind); err != nil {
			return nil, err
		}
		switch kind {
		case '@':
			if from, rest, err = number(rest, ','); err != nil {
				return nil, err
			}
			if from > len(base) || n > len(base)-from {
				return nil, errCopy
			}
			target = append(target, base[from:from+n]...)
		case ':':
			if n > len(rest) {
				return nil, errInsert
			}
			target, rest = append(target, rest[:n]...), rest[n:]
		default:
			return end(target, size, uint32(n), rest)
		}
		if len(target) > size {
			return nil, errSize
		}
	}
}

func end(target []byte, size int, sum uint32, rest []byte) ([]byte, error) {
	switch {
	case len(target) != size || len(rest) > 0:
		return nil, errSize
	case sum != checksum(target):
		return nil, errChecksum
	}
	return target, nil
}

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

// maxDigits of a number: 54 bits.
const maxDigits = 9

func number(b []byte, end byte) (n int, rest []byte, err error) {
	text, rest, found := bytes.Cut(b, []byte{end})
	if !found || len(text) == 0 || len(text) > maxDigits {
		return 0, nil, errNumber
	}
	for _, c := range text {
		digit := strings.IndexByte(digits, c)
		if digit < 0 {
			return 0, nil, errNumber
		}
		n = n<<6 | digit
	}
	return n, rest, nil
}
