package servers

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A server that answers each canary, or each ping where there are no canaries, is never given up, and needs no ping
// where there are canaries.
func TestLivenessOfServerThatAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		every int // checks from one canary to the next; 0: none
		pings bool
	}{{"canaries", 2, false}, {"no canaries", 0, true}, {"rare canaries", 8, true}} {
		l := liveness{limit: 7}
		heard, pings := true, 0
		for n := range 1000 {
			if c.every > 0 && n%c.every == 0 {
				heard = true // the canary was answered before the check
			}
			idle, dead := l.check(heard, false)
			if heard = false; dead {
				t.Fatalf("%s: given up", c.name)
			}
			if idle {
				pings++
				heard = true
			}
		}
		if (pings > 0) != c.pings {
			t.Errorf("%s: %d pings", c.name, pings)
		}
	}
}

// A server that stops answering is noticed within the timeout, whether it is asked by canaries, by pings, or by
// commands all the time; and not before half of the timeout has passed for a command.
func TestLivenessOfServerThatStops(t *testing.T) {
	const timeout, period = 4 * time.Second, maxCheckInterval
	limit := int(timeout/period) - 1
	rapid.Check(t, func(t *rapid.T) {
		canaries := rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "checks per canary")
		l := liveness{limit: limit}
		l.check(true, false)
		for range rapid.IntRange(0, 10).Draw(t, "checks") {
			idle, _ := l.check(canaries == 1, false)
			if idle {
				l.check(true, false) // the ping
			}
		}
		l.check(true, false) // the last answer came right before this check, the server stopped right after it
		phase := rapid.IntRange(0, max(canaries-1, 0)).Draw(t, "phase")
		waits, asked := false, 0
		for n := 1; ; n++ {
			waits = waits || canaries > 0 && (n+phase)%canaries == 0
			idle, dead := l.check(false, waits)
			if waits {
				asked++
			}
			if dead {
				if asked < limit/2 {
					t.Fatalf("given up at check %d, when a command had waited for %d", n, asked)
				}
				return
			}
			if n > limit {
				t.Fatalf("not given up %v after the last answer", time.Duration(n+1)*period)
			}
			waits = waits || idle
		}
	})
}

// The connection may rest for as long as it likes: what counts is how long a command waits.
func TestLivenessAfterRest(t *testing.T) {
	l := liveness{limit: 7}
	for range 100 {
		if _, dead := l.check(false, false); dead {
			t.Fatal("given up without a command that waits")
		}
	}
	for n := range 4 {
		if _, dead := l.check(false, true); dead != (n == 3) {
			t.Errorf("check %d: %v", n, dead)
		}
	}
}
