// Package fossiltest applies Fossil deltas, for tests of packages that make them.
package fossiltest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Apply returns the target that delta makes of base. It takes only a whole delta whose size and checksum are right.
func Apply(base, delta []byte) (target []byte, err error) {
	d := decoder{delta}
	size := d.number('\n')
	for size >= 0 {
		op := bytes.IndexAny(d.rest, "@:;")
		if op < 0 {
			break
		}
		kind := d.rest[op]
		n := d.number(kind)
		switch {
		case n < 0:
			return nil, errors.New("number expected")
		case kind == '@':
			from := d.number(',')
			if from < 0 || n > len(base)-from {
				return nil, errors.New("copy beyond the base")
			}
			target = append(target, base[from:from+n]...)
		case kind == ':':
			if n > len(d.rest) {
				return nil, errors.New("insert beyond the end")
			}
			target = append(target, d.rest[:n]...)
			d.rest = d.rest[n:]
		case len(target) != size || len(d.rest) > 0 || n != int(checksum(target)):
			return nil, fmt.Errorf("target of %d bytes instead of %d, or with another checksum, or %d bytes follow", len(target), size, len(d.rest))
		default:
			return target, nil
		}
	}
	return nil, errors.New("delta has no beginning, or no end")
}

type decoder struct{ rest []byte }

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"

func (d *decoder) number(end byte) (n int) {
	text, rest, found := bytes.Cut(d.rest, []byte{end})
	if !found || len(text) == 0 || len(text) > 9 {
		return -1
	}
	for _, c := range text {
		digit := strings.IndexByte(digits, c)
		if digit < 0 {
			return -1
		}
		n = n<<6 | digit
	}
	d.rest = rest
	return n
}

func checksum(p []byte) (sum uint32) {
	padded := append(bytes.Clone(p), 0, 0, 0)
	for ; len(padded) >= 4; padded = padded[4:] {
		sum += binary.BigEndian.Uint32(padded)
	}
	return sum
}
