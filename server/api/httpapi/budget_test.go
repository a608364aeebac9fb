//go:build !race

package httpapi_test

import "testing"

// TestPublishAllocations holds the budget of the hottest endpoint: the request,
// its channel and payload, the options for the node (the value and the slice),
// and the result.
func TestPublishAllocations(t *testing.T) {
	run := publisher(t)
	if n := testing.AllocsPerRun(1000, run); n > 6 {
		t.Errorf("a publish request allocates %v times, want at most 6", n)
	}
}
