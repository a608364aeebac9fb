//go:build race

package tagsfilter

func init() { raceEnabled = true }
