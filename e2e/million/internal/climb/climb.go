// Package climb searches the highest rate that a system bears: rising rates until one is too much, then some between the last good one
// and that.
package climb

type Climb struct {
	next, good, bad, factor float64
	refine, steps           int
}

// New returns a search that begins at a rate, multiplies it by factor while it is borne, and then tries refine rates in
// between. If the first rate is too much, it falls. It ends after steps rates in any case.
func New(first, factor float64, refine, steps int) *Climb {
	return &Climb{next: first, factor: factor, refine: refine, steps: steps}
}

// Next returns the rate to try; false if the search is over.
func (c *Climb) Next() (rate float64, ok bool) {
	return c.next, c.steps > 0 && (c.bad == 0 || c.refine > 0)
}

// Enter tells whether the system bore the rate that Next returned.
func (c *Climb) Enter(bore bool) {
	c.steps--
	if c.bad > 0 && c.good > 0 {
		c.refine--
	}
	if bore {
		c.good = c.next
	} else {
		c.bad = c.next
	}
	switch {
	case c.bad == 0:
		c.next *= c.factor
	case c.good == 0: // the first rate was too much
		c.next = c.bad / c.factor / c.factor
	default:
		c.next = (c.good + c.bad) / 2
	}
}

// Best returns the highest rate that was borne, 0 if none was, and whether a higher one was too much.
func (c *Climb) Best() (rate float64, limited bool) { return c.good, c.bad > 0 }
