// Package nearest finds the name that a mistyped one may mean.
package nearest

import "strings"

// Of returns the most similar name: with at most 3 edits, and one for every three letters after the last point. It may
// be empty.
func Of(name string, names []string) (best string) {
	limit := min(len(name[strings.LastIndexByte(name, '.')+1:])/3, 3) + 1
	for _, k := range names {
		if d := distance(name, k, limit); d < limit {
			best, limit = k, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace, or swap with the next one, up to limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
