package simulation

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

var (
	seed  = flag.Uint64("seed", 0, "run this seed alone")
	seeds = flag.Int("seeds", 20, "how many seeds to run")
)

func TestSeeds(t *testing.T) {
	first, n := uint64(1), *seeds
	if *seed != 0 {
		first, n = *seed, 1
	}
	for i := range uint64(n) {
		t.Run(fmt.Sprint(first+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, first+i)
				lines, failures := simulate(newPlan(first + i))
				if *seed != 0 {
					t.Log("\n" + strings.Join(lines, "\n"))
				}
				if len(failures) > 0 {
					t.Errorf("seed %d:\n%s", first+i, strings.Join(failures, "\n"))
				}
			})
		})
	}
}
