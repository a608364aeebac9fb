//go:build race

package engines

const raceDetector = true
