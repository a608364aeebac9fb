// Package proptest bounds how long tests of properties run.
package proptest

import "flag"

var times = flag.Int("times", 1, "how many times as long as usual tests of properties run")

// Rounds returns n, or more with the flag -times.
func Rounds(n int) int { return n * *times }
