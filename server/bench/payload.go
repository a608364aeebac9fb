package bench

import (
	"bytes"
	"strconv"
)

// MinSize and MaxSize bound the size of a published payload, in bytes. A smaller payload has no
// room for the numbers that identify a message.
const (
	MinSize = 96
	MaxSize = 1 << 20
)

// stamp identifies the message that a payload belongs to.
type stamp struct {
	run       uint32 // a random number of this run, so that messages of others do not count
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

// parsePayload reads the stamp of a payload; false if appendPayload has not written it.
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
		v, err := strconv.ParseInt(string(data[:end]), 10, 64)
		if err != nil {
			return stamp{}, false
		}
		values[i], data = v, data[end:]
	}
	s := stamp{run: uint32(values[0]), publisher: int(values[1]), channel: int(values[2]), seq: uint64(values[3]), sent: values[4]}
	whole := int64(s.run) == values[0] && values[3] >= 0
	return s, whole && bytes.HasPrefix(data, []byte(`,"x":"`)) && bytes.HasSuffix(data, []byte(`"}`))
}
