//go:build linux

package load

import (
	"bytes"
	"io"
	"testing"

	"github.com/gyrohq/gyro/internal/wsclient"
)

type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }

// FuzzFrame: package wsclient reads the same messages, however the bytes are split. What is fragmented is refused.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x81\x02{}\x82\x01\x00"), uint8(1))
	f.Add([]byte("\x89\x00\x88\x02\x0b\xb8\x81\x7e\x00\x03abc"), uint8(5))
	f.Add([]byte("\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x01a\x8a\x01x"), uint8(3))
	f.Add([]byte("\x01\x01a\x80\x01b"), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var got, want [][]byte
		var failed error
		size := max(1, int(step))
		for rest, end := data, min(size, len(data)); ; end = min(end+size, len(rest)) {
			op, payload, n, err := frame(rest[:end])
			if err != nil || n > 0 && op == wsclient.OpClose {
				failed = err
				break
			}
			if n > 0 {
				if op == wsclient.OpText || op == wsclient.OpBinary {
					got = append(got, payload)
				}
				rest, end = rest[n:], end-n
				continue
			}
			if end == len(rest) {
				break
			}
		}
		c := wsclient.Over(stream{bytes.NewReader(data)}, false, largestFrame)
		for {
			message, err := c.Next()
			if err != nil {
				break
			}
			want = append(want, bytes.Clone(message))
		}
		if failed != nil {
			want = want[:min(len(want), len(got))] // the other one takes messages in parts
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d messages, not %d", data, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("%q: message %d is %q, not %q", data, i, got[i], want[i])
			}
		}
	})
}
