//go:build race

package session_test

// usualSteps under the race detector, which is an order of magnitude slower and
// finds nothing in what has no goroutines.
const usualSteps = 50_000
