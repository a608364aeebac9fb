package account

import "testing"

// TestBook: a suite that does not notice a loss proves nothing.
func TestBook(t *testing.T) {
	const told, doubt = 1000, 2000 // told + the number under way; doubt + the number
	for name, test := range map[string]struct {
		events []int64
		want   Counts
	}{
		"in order":              {[]int64{1, 2, 3}, Counts{Received: 3}},
		"lost":                  {[]int64{1, 2, 5}, Counts{Received: 3, Lost: 2}},
		"lost at the start":     {[]int64{2}, Counts{Received: 1, Lost: 1}},
		"twice":                 {[]int64{1, 2, 2, 3}, Counts{Received: 4, Duplicated: 1}},
		"out of order":          {[]int64{1, 3, 2, 4}, Counts{Received: 4, Lost: 1, Duplicated: 1}},
		"told":                  {[]int64{1, told + 3, 4, 5}, Counts{Received: 3, Told: 1, Missed: 2}},
		"told, nothing missed":  {[]int64{1, told + 1, 2}, Counts{Received: 2, Told: 1}},
		"told, again":           {[]int64{1, 2, told + 2, 2, 3}, Counts{Received: 4, Told: 1}},
		"told, a later one":     {[]int64{1, told + 3, 5}, Counts{Received: 2, Told: 1, Missed: 2, Lost: 1}},
		"told, lost later":      {[]int64{1, told + 3, 4, 6}, Counts{Received: 3, Told: 1, Missed: 2, Lost: 1}},
		"told, twice later":     {[]int64{1, told + 3, 4, 4}, Counts{Received: 3, Told: 1, Missed: 2, Duplicated: 1}},
		"doubtful, never":       {[]int64{1, doubt + 2, 3}, Counts{Received: 2}},
		"doubtful, late":        {[]int64{1, doubt + 2, 3, 2, 4}, Counts{Received: 4}},
		"doubtful, in order":    {[]int64{1, 2, doubt + 2, 3}, Counts{Received: 3}},
		"doubtful, twice":       {[]int64{1, 2, doubt + 2, 3, 2}, Counts{Received: 4, Duplicated: 1}},
		"doubtful, twice late":  {[]int64{1, doubt + 2, 3, 2, 2}, Counts{Received: 4, Duplicated: 1}},
		"doubtful, others lost": {[]int64{1, doubt + 2, 4}, Counts{Received: 2, Lost: 1}},
	} {
		b, said := &Book{Ledger: &Ledger{}}, 0
		b.Evidence = func(string) { said++ }
		for _, e := range test.events {
			switch {
			case e > doubt:
				b.Ledger.doubt(e - doubt)
			case e > told:
				b.Ledger.Begun.Store(e - told)
				b.WasTold()
			default:
				b.Receive(e)
			}
		}
		got := b.Read(true)
		got.Silence = 0
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if (said > 0) != (got.Lost+got.Duplicated > 0) {
			t.Errorf("%s: %d times evidence for %+v", name, said, got)
		}
	}
}
