// Package pace repeats tests of times to live that a busy machine has slowed down: something may have expired for no
// fault of the engine.
package pace

import "time"

// Clock tells whether an attempt keeps pace. A nil Clock always does.
type Clock struct {
	limit time.Time // the latest time for the present step of the attempt
	part  time.Time // the same, between BeginPart and EndPart
}

type late struct{}

// Try returns false if test has called Check after slack was over. The times given to Pass do not count. Then the
// results of test mean nothing.
func Try(slack time.Duration, test func(c *Clock)) (kept bool) {
	defer func() {
		if r := recover(); r != nil && r != any(late{}) {
			panic(r)
		}
	}()
	test(&Clock{limit: time.Now().Add(slack)})
	return true
}

// Pass notes that the test itself lets time pass.
func (c *Clock) Pass(d time.Duration) {
	if c != nil {
		c.limit = c.limit.Add(d)
	}
}

// BeginPart begins a part of the attempt that must end within d, waiting included, because something that it needs lives
// for so long.
func (c *Clock) BeginPart(d time.Duration) {
	if c != nil {
		c.part = time.Now().Add(d)
	}
}

// EndPart ends what BeginPart began. It ends the attempt if it is late.
func (c *Clock) EndPart() {
	if c != nil {
		c.Check()
		c.part = time.Time{}
	}
}

// Check ends the attempt if it is late. The test calls it in its own goroutine before it looks at a result that depends
// on time.
func (c *Clock) Check() {
	if c == nil {
		return
	}
	if now := time.Now(); !now.Before(c.limit) || !c.part.IsZero() && !now.Before(c.part) {
		panic(late{})
	}
}
