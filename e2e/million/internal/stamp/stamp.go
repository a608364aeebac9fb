// Package stamp reads and writes the data of publications: the number in the channel, which shows losses, repetitions
// and disorder, and the time when it was due, which shows the delay.
package stamp

import (
	"bytes"
	"strconv"
)

// Stamp of a publication.
type Stamp struct {
	Number uint64 // in its channel, from 0
	Due    int64  // nanoseconds since 1970
}

const number, due, padding, end = `{"n":`, `,"t":`, `,"x":"`, `"}`

// Append appends JSON of size bytes, or somewhat more if that is too small.
func (s Stamp) Append(dst []byte, size int) []byte {
	start := len(dst)
	dst = strconv.AppendUint(append(dst, number...), s.Number, 10)
	dst = strconv.AppendInt(append(dst, due...), s.Due, 10)
	dst = append(dst, padding...)
	for len(dst)-start < size-len(end) {
		dst = append(dst, 'x')
	}
	return append(dst, end...)
}

// Parse reads the stamp of a payload; false if Append has not made it.
func Parse(data []byte) (s Stamp, ok bool) {
	digits, data, ok := field(data, number, due)
	if !ok {
		return s, false
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return s, false
	}
	digits, data, ok = field(data, due, padding)
	if !ok {
		return s, false
	}
	t, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || !bytes.HasSuffix(data, []byte(end)) || len(data) < len(padding)+len(end) {
		return s, false
	}
	return Stamp{n, t}, true
}

// field returns the text between key, at the beginning, and the next key, which begins the rest.
func field(data []byte, key, next string) (value, rest []byte, ok bool) {
	if len(data) < len(key) || string(data[:len(key)]) != key {
		return nil, nil, false
	}
	data = data[len(key):]
	at := bytes.IndexByte(data, ',')
	if at < 1 || at > 20 || len(data) < at+len(next) || string(data[at:at+len(next)]) != next {
		return nil, nil, false
	}
	return data[:at], data[at:], true
}
