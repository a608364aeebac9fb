package bench

import (
	"bytes"
	"strconv"
)

// MinSize and MaxSize bound the size of a published payload, in bytes. Below the
// first there is no room for what tells one message from another.
const (
	MinSize = 96
	MaxSize = 1 << 20
)

// stamp is what a payload says about itself.
type stamp struct {
	run       uint32 // of this process, so that strangers' messages do not count
	publisher int
	channel   int // everyChannel, or index
	seq       uint64
	sent      int64 // nanoseconds since the run began
}

// everyChannel stands for a broadcast.
const everyChannel = -1

var stampKeys = [...]string{`{"g":`, `,"p":`, `,"c":`, `,"s":`, `,"t":`}

// appendPayload appends a payload of size bytes, which is JSON in every encoding.
func appendPayload(dst []byte, s stamp, size int) []byte {
	start := len(dst)
	for i, v := range [...]int64{int64(s.run), int64(s.publisher), int64(s.channel), int64(s.seq), s.sent} {
		dst = append(dst, stampKeys[i]...)
		dst = strconv.AppendInt(dst, v, 10)
	}
	dst = append(dst, `,"x":"`...)
	for len(dst)-start < size-2 {
		dst = append(dst, 'x')
	}
	return append(dst, `"}`...)
}

// parsePayload reads a payload; false if it is nothing that appendPayload wrote.
func parsePayload(data []byte) (stamp, bool) {
	var values [len(stampKeys)]int64
	for i, key := range stampKeys {
		if len(data) < len(key) || string(data[:len(key)]) != key {
			return stamp{}, false
		}
		data = data[len(key):]
		end := bytes.IndexByte(data, ',')
		if end < 1 || end > 19 {
			return stamp{}, false
		}
		v, ok := parseInt(data[:end])
		if !ok {
			return stamp{}, false
		}
		values[i], data = v, data[end:]
	}
	s := stamp{run: uint32(values[0]), publisher: int(values[1]), channel: int(values[2]), seq: uint64(values[3]), sent: values[4]}
	whole := int64(s.run) == values[0] && values[3] >= 0
	return s, whole && bytes.HasPrefix(data, []byte(`,"x":"`)) && bytes.HasSuffix(data, []byte(`"}`))
}

// parseInt reads at most 19 bytes.
func parseInt(b []byte) (int64, bool) {
	negative := b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var v int64
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		v = v*10 + int64(d-'0')
	}
	if negative {
		v = -v
	}
	return v, true
}
