//go:build race

package programtest

const race = true
