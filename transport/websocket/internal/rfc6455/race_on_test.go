//go:build race

package rfc6455

const raceEnabled = true
