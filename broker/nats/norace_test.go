//go:build !race

package nats

const raceDetector = false
