//go:build !race

package httpapi_test

import "testing"

// TestPublishAllocations holds the budget of the endpoint within net/http: the
// request, its channel and payload, and the result.
func TestPublishAllocations(t *testing.T) {
	run := publisher(t)
	if n := testing.AllocsPerRun(1000, run); n > 4 {
		t.Errorf("a publish request allocates %v times, want at most 4", n)
	}
}
