//go:build race

package delta

func init() { raceEnabled = true }
