package account

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"
)

// TestLedger against a model that remembers every message.
func TestLedger(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var l Ledger
		total := uint64(1 + rng.IntN(30))
		seen := make([]map[uint64]bool, 2)
		highest := []int64{-1, -1}
		for i := range seen {
			seen[i] = make(map[uint64]bool)
		}
		for range rng.IntN(60) {
			p, seq := rng.IntN(2), rng.Uint64N(total)
			want := Fresh
			switch {
			case seen[p][seq]:
				want = Duplicate
			case int64(seq) < highest[p]:
				want = Late
			}
			seen[p][seq], highest[p] = true, max(highest[p], int64(seq))
			if got := l.Observe(p, seq); got != want {
				t.Fatalf("observe %d of publisher %d: %d, want %d", seq, p, got, want)
			}
		}
		for p := range seen {
			if got, want := l.Missing(p, total), total-uint64(len(seen[p])); got != want {
				t.Fatalf("missing %d, want %d", got, want)
			}
		}
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	for _, s := range []Stamp{
		{},
		{Run: 1<<32 - 1, Publisher: 9999, Channel: 999_999, Seq: 1e9, Sent: int64(100 * 24 * time.Hour)},
		{Channel: EveryChannel},
	} {
		for _, size := range []int{MinSize, 128, 5000} {
			b := AppendPayload(nil, s, size)
			if len(b) != size || !json.Valid(b) {
				t.Errorf("%d bytes: %s", len(b), b)
			}
			if got, ok := ParsePayload(b); !ok || got != s {
				t.Errorf("%+v, want %+v", got, s)
			}
		}
	}
}

// FuzzParsePayload: no input harms, and what is taken is what would be written.
func FuzzParsePayload(f *testing.F) {
	f.Add(AppendPayload(nil, Stamp{Run: 7, Publisher: 1, Channel: 2, Seq: 3, Sent: 4}, MinSize))
	f.Add([]byte(`{"g":,"p":1`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := ParsePayload(data)
		if !ok {
			return
		}
		again, ok := ParsePayload(AppendPayload(nil, s, len(data)))
		if !ok || again != s {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}
