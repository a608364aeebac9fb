package account

import (
	"bytes"
	"strconv"
)

// MinSize in bytes: a smaller payload has no room for the stamp.
const MinSize = 96

// Stamp identifies the message that a payload belongs to.
type Stamp struct {
	Run       uint32 // a random number of this run, so that messages of others do not count
	Publisher int
	Channel   int // EveryChannel, or index
	Seq       uint64
	Sent      int64 // nanoseconds since the run began
}

// EveryChannel stands for a broadcast.
const EveryChannel = -1

var stampKeys = [...]string{`{"g":`, `,"p":`, `,"c":`, `,"s":`, `,"t":`}

// AppendPayload appends a payload of size bytes, which is JSON in every encoding.
func AppendPayload(dst []byte, s Stamp, size int) []byte {
	start := len(dst)
	for i, v := range [...]int64{int64(s.Run), int64(s.Publisher), int64(s.Channel), int64(s.Seq), s.Sent} {
		dst = append(dst, stampKeys[i]...)
		dst = strconv.AppendInt(dst, v, 10)
	}
	dst = append(dst, `,"x":"`...)
	for len(dst)-start < size-2 {
		dst = append(dst, 'x')
	}
	return append(dst, `"}`...)
}

// ParsePayload reads the stamp of a payload; false if AppendPayload has not written it.
func ParsePayload(data []byte) (Stamp, bool) {
	var values [len(stampKeys)]int64
	for i, key := range stampKeys {
		if len(data) < len(key) || string(data[:len(key)]) != key {
			return Stamp{}, false
		}
		data = data[len(key):]
		end := bytes.IndexByte(data, ',')
		if end < 1 || end > 19 {
			return Stamp{}, false
		}
		v, err := strconv.ParseInt(string(data[:end]), 10, 64)
		if err != nil {
			return Stamp{}, false
		}
		values[i], data = v, data[end:]
	}
	s := Stamp{Run: uint32(values[0]), Publisher: int(values[1]), Channel: int(values[2]), Seq: uint64(values[3]), Sent: values[4]}
	whole := int64(s.Run) == values[0] && values[3] >= 0
	return s, whole && bytes.HasPrefix(data, []byte(`,"x":"`)) && bytes.HasSuffix(data, []byte(`"}`))
}
