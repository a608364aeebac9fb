package random

import "testing"

// Each function takes its numbers from the source that is in use, and from chance again afterwards.
func TestUse(t *testing.T) {
	restore := Use(Source{
		Uint64: func() uint64 { return 7 }, Float64: func() float64 { return 0.5 }, Hash: func(text string) uint64 { return uint64(len(text)) },
		Stream: func() func() float64 { return func() float64 { return 0.25 } },
	})
	if Uint64() != 7 || Float64() != 0.5 || N(10) != 5 || Hash("abc") != 3 || Stream()() != 0.25 || Process() != 7 {
		t.Error("a number is not from the source")
	}
	restore()
	process, hash := Process(), Hash("a")
	if process == 7 || process != Process() || hash != Hash("a") || hash == Hash("b") {
		t.Error("the source is still in use, or hashes do not repeat")
	}
	for range 1000 {
		if n := N(3); n < 0 || n > 2 {
			t.Fatalf("N(3) returned %d", n)
		}
	}
}
