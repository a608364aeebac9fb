package climb

import "testing"

// TestClimb: the search comes near the limit from below, and ends.
func TestClimb(t *testing.T) {
	for _, tt := range []struct{ first, limit, least float64 }{
		{100, 1000, 850}, {100, 101, 100}, {100, 99, 30}, {100, 2, 1}, {100, 1e9, 50_000},
	} {
		c, tried := New(100, 2, 3, 12), 0
		for rate, ok := c.Next(); ok; rate, ok = c.Next() {
			tried++
			c.Enter(rate <= tt.limit)
		}
		best, limited := c.Best()
		if best > tt.limit || best < tt.least || limited != (tt.limit < 1e9) || tried > 12 {
			t.Errorf("limit %v: found %v (limited: %v) by %d rates", tt.limit, best, limited, tried)
		}
	}
	c := New(100, 2, 3, 12)
	for _, ok := c.Next(); ok; _, ok = c.Next() {
		c.Enter(false)
	}
	if best, limited := c.Best(); best != 0 || !limited {
		t.Errorf("nothing was borne, and the best is %v", best)
	}
}
