package client

import (
	"testing"

	"github.com/google/uuid"
)

// An ID tells its loop, and has everything else of a random UUID.
func TestSessionIDs(t *testing.T) {
	seen := make(map[uuid.UUID]bool)
	for _, loops := range []int{1, 2, 3, 7, 64, 192, 1000} {
		for loop := range loops {
			for range 10 {
				id := newSessionID(loop, loops)
				if got := loopOf(id, loops); got != loop {
					t.Fatalf("%s is of loop %d of %d, not %d", id, got, loops, loop)
				}
				if id.Version() != 4 || id.Variant() != uuid.RFC4122 || seen[id] {
					t.Fatalf("%s: version %d, variant %s, seen before: %v", id, id.Version(), id.Variant(), seen[id])
				}
				seen[id] = true
			}
		}
	}
	// Every bit that may vary does: a bit that is always the same would be no secret.
	var ones, zeros uuid.UUID
	for id := range seen {
		for i, b := range id {
			ones[i] |= b
			zeros[i] |= ^b
		}
	}
	for i := range ones {
		want := byte(0xff)
		switch i {
		case 6:
			want = 0x0f
		case 8:
			want = 0x3f
		}
		if got := ones[i] & zeros[i]; got != want {
			t.Errorf("byte %d varies in %08b", i, got)
		}
	}
}

func TestParseSessionID(t *testing.T) {
	id := newSessionID(0, 1)
	if got, ok := parseSessionID(id.String()); !ok || got != id {
		t.Errorf("%s, %v", got, ok)
	}
	for _, text := range []string{"", "no ID", "{" + id.String() + "}", "urn:uuid:" + id.String(), id.String()[:35], "6BA7B810-9DAD-41D1-80B4-00C04FD430C8"} {
		if _, ok := parseSessionID(text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}

// Who has gone is found no more, and leaves nothing behind.
func TestSessions(t *testing.T) {
	var s sessions
	a, b := new(Client), new(Client)
	s.remove(a)
	s.add(a, 0, 2)
	s.add(b, 0, 2)
	id := s.ids[a]
	if s.find(id) != a || s.find(s.ids[b]) != b || s.find(uuid.Nil) != nil {
		t.Error("the wrong clients are found")
	}
	s.remove(a)
	if s.find(id) != nil || len(s.clients) != 1 || len(s.ids) != 1 {
		t.Errorf("%d clients and %d IDs", len(s.clients), len(s.ids))
	}
}
