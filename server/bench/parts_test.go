package bench

import (
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
