//go:build !race

package mapcache_test

const raceEnabled = false
