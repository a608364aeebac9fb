package stand

import "testing"

// TestBook holds the books against conversations whose faults are known: a suite
// that does not notice a loss proves nothing.
func TestBook(t *testing.T) {
	const told = -1
	for name, test := range map[string]struct {
		events []int64
		want   Counts
	}{
		"in order":             {[]int64{1, 2, 3}, Counts{Received: 3}},
		"lost":                 {[]int64{1, 2, 5}, Counts{Received: 3, Lost: 2}},
		"lost at the start":    {[]int64{2}, Counts{Received: 1, Lost: 1}},
		"twice":                {[]int64{1, 2, 2, 3}, Counts{Received: 4, Duplicated: 1}},
		"out of order":         {[]int64{1, 3, 2, 4}, Counts{Received: 4, Lost: 1, Duplicated: 1}},
		"told":                 {[]int64{1, told, 4, 5}, Counts{Received: 3, Told: 1, Missed: 2}},
		"told, nothing missed": {[]int64{1, told, 2}, Counts{Received: 2, Told: 1}},
		"told, again":          {[]int64{1, 2, told, 2, 3}, Counts{Received: 4, Told: 1}},
		"told, lost later":     {[]int64{1, told, 4, 6}, Counts{Received: 3, Told: 1, Missed: 2, Lost: 1}},
	} {
		b := &book{}
		for _, e := range test.events {
			if e == told {
				b.told()
			} else {
				b.receive(e)
			}
		}
		got := b.read(true)
		got.Silence = 0
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
