package jsonwire

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestAppendUint(t *testing.T) {
	check := func(n uint64) {
		if got, want := string(AppendUint([]byte("x"), n)), "x"+strconv.FormatUint(n, 10); got != want {
			t.Fatalf("%d is %s", n, got)
		}
	}
	for n := range uint64(20000) {
		check(n)
	}
	for n := uint64(1); n != 0; n *= 10 {
		check(n - 1)
		check(n)
		if n > math.MaxUint64/10 {
			break
		}
	}
	check(math.MaxUint64)
}

// TestValid compares with encoding/json, on objects of the simple shape at every
// length and alignment, and on what becomes of them by one wrong byte.
func TestValid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wrong := []byte("\"\\{}[]:,0 9a-.\n\x00\x1f\x7f\x80\xffé")
	for key := range 20 {
		for value := range 100 {
			text := `{"` + strings.Repeat("k", key) + `":"` + strings.Repeat("v", value) + `","n":` + strconv.Itoa(value) + `}`
			for n := range len(text) + 1 {
				compare(t, []byte(text[:n]))
			}
			p := []byte(text)
			for range 20 {
				i := r.IntN(len(p))
				was := p[i]
				p[i] = wrong[r.IntN(len(wrong))]
				compare(t, p)
				p[i] = was
			}
		}
	}
}

func compare(t *testing.T, p []byte) {
	t.Helper()
	want := json.Valid(p) && strings.ToValidUTF8(string(p), "") == string(p)
	if got := Valid(p); got != want {
		t.Fatalf("Valid(%q) = %v", p, got)
	}
}
