package loop

import "testing"

// Neighbours share a phase, which fits every period; the phases of all cover the period.
func TestPhase(t *testing.T) {
	l := New()
	const periods = 1000
	counts := make(map[int64]int)
	for range periods {
		first := l.Phase(10)
		counts[first]++
		for range neighbours - 2 {
			if got := l.Phase(10); got != first {
				t.Fatalf("phase %d next to %d", got, first)
			}
		}
		if got := l.Phase(5); got != first/2 {
			t.Fatalf("phase %d of half the period, where %d is that of the whole", got, first)
		}
	}
	for phase := range int64(10) {
		if n := counts[phase]; n < periods/20 || n > periods/5 {
			t.Errorf("%d of %d have phase %d", n, periods, phase)
		}
	}
	if len(counts) != 10 {
		t.Errorf("phases %v", counts)
	}
	if got := l.Phase(1); got != 0 {
		t.Errorf("phase %d of 1", got)
	}
}
