//go:build race

package fossil

func init() { raceEnabled = true }
