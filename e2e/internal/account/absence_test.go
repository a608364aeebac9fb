package account

import (
	"testing"
	"time"
)

// TestAbsence: the longest absence counts, and one that goes on belongs to both spans.
func TestAbsence(t *testing.T) {
	var a Absence
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	expect := func(what string, now int, anew bool, times int, longest time.Duration, still bool) {
		t.Helper()
		if n, d, s := a.Away(at(now), anew); n != times || d != longest || s != still {
			t.Errorf("%s: %d, %v, %v, want %d, %v, %v", what, n, d, s, times, longest, still)
		}
	}
	a.Returned(at(1))
	expect("connected", 1, false, 0, 0, false)
	a.Left(at(2))
	a.Left(at(3)) // another attempt
	expect("away", 5, false, 1, 3*time.Second, true)
	a.Returned(at(6))
	a.Left(at(10))
	expect("away again", 12, true, 2, 4*time.Second, true)
	expect("the next span", 13, false, 1, 3*time.Second, true)
	a.Returned(at(15))
	expect("back", 20, true, 1, 5*time.Second, false)
	expect("nothing more", 20, false, 0, 0, false)
}
