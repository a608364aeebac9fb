//go:build !race

package programtest

const race = false
