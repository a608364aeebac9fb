package losses

import (
	"fmt"
	"testing"

	"github.com/gyrohq/gyro/channel"
)

// TestOvertaken: in a Cluster, publications of the new owner of a slot may overtake the publications of the old owner.
// An offset that comes late gives a stream a provisional epoch, and the last delivery shows that it holds all, even if a
// read was ahead.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	sub := NewStream("ch")
	deliver := func(offset uint64, want bool) {
		t.Helper()
		data := fmt.Append(nil, "publication ", offset)
		if _, again := sub.Deliver([]byte("e"), offset, data); again != want {
			t.Fatalf("offset %d came again: %v", offset, again)
		}
	}
	deliver(41, false)
	deliver(41, false)
	deliver(40, true)
	deliver(42, false)
	sub.Read(channel.StreamPosition{Epoch: "e", Offset: 43})
	c, _ := sub.Candidate()
	if c.Offset != 41 || c.top != 43 || c.provisional == nil {
		t.Fatalf("%+v", c)
	}
	for _, test := range []struct {
		top   uint64
		entry string
		want  bool
	}{
		{45, "publication 41", true},
		{45, "another one", false},
		{42, "publication 41", false}, // 43 was read
		{43, "", true},
		{44, "", false},
	} {
		if got := c.holds(test.top, test.entry, true); got != test.want {
			t.Errorf("%+v: holds %v", test, got)
		}
	}
	c.stream.Confirm(c.provisional)
	if c, _ = sub.Candidate(); c.provisional != nil || c.Offset != 43 || c.Sum != 0 {
		t.Errorf("%+v behind the verification", c)
	}
	deliver(44, false)
	if c, _ = sub.Candidate(); c.Offset != 44 || c.top != 44 || c.Sum == 0 {
		t.Errorf("%+v behind the next publication", c)
	}
}

// TestOlderEpoch: another node has given a stream a new epoch, as Redis had lost publications. Then Redis comes back with
// the older data again. Late messages and answers are no proof of that, and a verification finds it out.
func TestOlderEpoch(t *testing.T) {
	t.Parallel()
	sub := NewStream("ch")
	sub.Deliver([]byte("old"), 9, []byte("publication 9"))
	sub.Read(channel.StreamPosition{Epoch: "new", Offset: 8})
	if epoch, again := sub.Deliver([]byte("old"), 10, []byte("publication 10")); epoch != "old" || again {
		t.Errorf("a late message is delivered in %q, again %v", epoch, again)
	}
	sub.Read(channel.StreamPosition{Epoch: "old", Offset: 10})
	c, ok := sub.Candidate()
	if !ok || c.Epoch != "new" || c.top != 8 || !c.earlier.Has("old") || c.earlier.Has("new") {
		t.Errorf("%+v", c)
	}
	sub.Moved("new", channel.StreamPosition{Epoch: "newest", Offset: 8})
	if c, _ = sub.Candidate(); c.Epoch != "newest" || !c.earlier.Has("old") || !c.earlier.Has("new") {
		t.Errorf("%+v behind the verification", c)
	}
}
