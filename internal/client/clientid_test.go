package client

import (
	"testing"

	"github.com/google/uuid"
)

func TestNew(t *testing.T) {
	seen := make(map[uuid.UUID]bool)
	for range 10_000 {
		id := newClientID()
		if id.Version() != 4 || id.Variant() != uuid.RFC4122 || seen[id] {
			t.Fatalf("%s: version %d, variant %s, seen before: %v", id, id.Version(), id.Variant(), seen[id])
		}
		seen[id] = true
	}
	if n := testing.AllocsPerRun(100, func() { newClientID() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
