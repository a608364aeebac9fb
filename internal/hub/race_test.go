//go:build race

package hub_test

func init() { raceEnabled = true }
