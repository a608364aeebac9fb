package stamp

import (
	"encoding/json"
	"math"
	"testing"
)

func TestStamp(t *testing.T) {
	for _, s := range []Stamp{{}, {1, 2}, {math.MaxUint64, math.MaxInt64}, {7, 1_800_000_000_000_000_000}} {
		for _, size := range []int{0, 100, 1000} {
			data := s.Append(nil, size)
			if got, ok := Parse(data); !ok || got != s || !json.Valid(data) || size >= 100 && len(data) != size {
				t.Errorf("%s (%d bytes) is read as %v", data, len(data), got)
			}
		}
	}
}

func TestParseAllocs(t *testing.T) {
	data := Stamp{123_456, 1_800_000_000_000_000_000}.Append(nil, 128)
	if n := testing.AllocsPerRun(100, func() { Parse(data) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzParse: an accepted payload is one that encoding/json reads, and comes from Append but for zeros and signs.
func FuzzParse(f *testing.F) {
	f.Add(Stamp{1, 2}.Append(nil, 64))
	f.Add([]byte(`{"n":1,"t":-2,"x":""}`))
	f.Add([]byte(`{"n":1,"t":2,"x":"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := Parse(data)
		var want struct {
			N uint64 `json:"n"`
			T int64  `json:"t"`
		}
		if err := json.Unmarshal(data, &want); ok && err == nil && (got != Stamp{want.N, want.T}) {
			// A later key of the same name wins in JSON; such a payload is not of Append.
			if again := got.Append(nil, len(data)); string(again) == string(data) {
				t.Errorf("%q is read as %v, not %v", data, got, want)
			}
		}
	})
}
