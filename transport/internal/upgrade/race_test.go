//go:build race

package upgrade

const raceEnabled = true
