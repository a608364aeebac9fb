//go:build !race

package session_test

// usualSteps of the simulation in a run of all tests.
const usualSteps = 2_000_000
