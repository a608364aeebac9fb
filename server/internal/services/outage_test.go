package services

import "testing"

// TestOutage: the first failure begins an outage, and the first success after it ends it.
func TestOutage(t *testing.T) {
	var o Outage
	for range 2 {
		if o.Lasts() || o.Over() != 0 {
			t.Fatal("there was no failure")
		}
		if first, second := o.Failed(), o.Failed(); first != 1 || second != 2 || !o.Lasts() {
			t.Fatalf("failures %d and %d", first, second)
		}
		if n := o.Over(); n != 2 {
			t.Fatalf("%d failures are over, want 2", n)
		}
	}
}
