//go:build !race

package upgrade

const raceEnabled = false
