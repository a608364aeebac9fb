package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// paths lists the leaves of a JSON document.
func paths(list []string, prefix string, v any) []string {
	m, ok := v.(map[string]any)
	if !ok {
		return append(list, prefix)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = paths(list, prefix+"/"+key, m[key])
	}
	return list
}

// TestLedger against a model that remembers every message.
func TestLedger(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var l ledger
		total := uint64(1 + rng.IntN(30))
		seen := make([]map[uint64]bool, 2)
		highest := []int64{-1, -1}
		for i := range seen {
			seen[i] = make(map[uint64]bool)
		}
		for range rng.IntN(60) {
			p, seq := rng.IntN(2), rng.Uint64N(total)
			want := fresh
			switch {
			case seen[p][seq]:
				want = duplicate
			case int64(seq) < highest[p]:
				want = late
			}
			seen[p][seq], highest[p] = true, max(highest[p], int64(seq))
			if got := l.observe(p, seq); got != want {
				t.Fatalf("observe %d of publisher %d: %d, want %d", seq, p, got, want)
			}
		}
		for p := range seen {
			if got, want := l.missing(p, total), total-uint64(len(seen[p])); got != want {
				t.Fatalf("missing %d, want %d", got, want)
			}
		}
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for _, s := range []stamp{
		{},
		{run: 1<<32 - 1, publisher: 9999, channel: 999_999, seq: 1e9, sent: int64(100 * 24 * time.Hour)},
		{channel: everyChannel},
	} {
		for _, size := range []int{MinSize, 128, 5000} {
			b := appendPayload(nil, s, size)
			if len(b) != size || !json.Valid(b) {
				t.Errorf("%d bytes: %s", len(b), b)
			}
			if got, ok := parsePayload(b); !ok || got != s {
				t.Errorf("%+v, want %+v", got, s)
			}
		}
	}
}

// FuzzParsePayload: no input harms, and what is taken is what would be written.
func FuzzParsePayload(f *testing.F) {
	f.Add(appendPayload(nil, stamp{run: 7, publisher: 1, channel: 2, seq: 3, sent: 4}, MinSize))
	f.Add([]byte(`{"g":,"p":1`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := parsePayload(data)
		if !ok {
			return
		}
		again, ok := parsePayload(appendPayload(nil, s, len(data)))
		if !ok || again != s {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}

// FuzzConsume: frames come out the same however the bytes are cut, and no input harms.
func FuzzConsume(f *testing.F) {
	long := binary.BigEndian.AppendUint64([]byte{0x82, 127}, 70_000)
	f.Add(append(long, make([]byte, 70_000)...), uint16(1000))
	f.Add([]byte("\x81\x02hi\x01\x01a\x80\x01b\x8a\x00\x88\x02\x0b\xb8"), uint16(1))
	f.Add([]byte("\x82\x7e\x00\x03abc\x81\xff"), uint16(2))
	f.Fuzz(func(t *testing.T, data []byte, step uint16) {
		read := func(step int) (messages [][]byte, failure string) {
			var l link
			for rest := data; len(rest) > 0; {
				dst := l.space()
				n := copy(dst[:min(len(dst), step)], rest)
				rest = rest[n:]
				if err := l.took(n, func(m []byte) error {
					messages = append(messages, bytes.Clone(m))
					return nil
				}); err != nil {
					return messages, err.Error()
				}
			}
			return messages, ""
		}
		if slices.ContainsFunc(data, func(b byte) bool { return b&0x0f == 9 }) {
			return // a ping is answered, and there is no connection
		}
		whole, failure := read(readSize)
		cut, cutFailure := read(1 + max(int(step), len(data)/256))
		if failure != cutFailure || !slices.EqualFunc(whole, cut, bytes.Equal) {
			t.Errorf("%d messages (%s), cut %d (%s)", len(whole), failure, len(cut), cutFailure)
		}
	})
}

// TestUsage reads this process.
func TestUsage(t *testing.T) {
	t.Parallel()
	needsProc(t)
	u, err := readUsage(os.Getpid())
	if err != nil || u.memory < 1<<20 {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := readUsage(0); u != nil || err != nil {
		t.Errorf("%+v %v", u, err)
	}
	if _, err := readUsage(1 << 30); err == nil {
		t.Error("a process that is not there")
	}
}
