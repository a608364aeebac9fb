package standby

import (
	"fmt"
	"testing"
	"time"
)

var when = time.Unix(1_700_000_000, 0)

func row(id int64) Row { return Row{id, when.Add(time.Duration(id))} }

// expect checks which row a channel needs; 0: no row shows enough.
func expect(t *testing.T, f *Floor, ch string, id int64) {
	t.Helper()
	m, ok := f.Of(ch)
	if ok != (id > 0) || ok && m != row(id) {
		t.Errorf("%s needs %v, %v, want %d", ch, m, ok, id)
	}
}

func TestFloor(t *testing.T) {
	var f Floor
	expect(t, &f, "a", 0)
	f.Raise(row(5))
	f.Raise(row(3))
	expect(t, &f, "a", 5)
	f.Raise(Row{ID: 9}) // rows up to 9 are passed over
	expect(t, &f, "a", 0)
	f.Raise(row(7))
	expect(t, &f, "a", 0)
	f.Raise(row(9))
	expect(t, &f, "a", 9)

	f.Changed("a", 9)
	f.Changed("a", 8) // of a read that was slower
	expect(t, &f, "a", 0)
	expect(t, &f, "b", 9)
	f.Raise(row(10))
	expect(t, &f, "a", 10)

	f.Blind()
	expect(t, &f, "b", 0)
	f.Raise(row(11))
	expect(t, &f, "b", 0)
	f.Sees(11, f.Blindness())
	expect(t, &f, "b", 0)
	f.Raise(row(12))
	expect(t, &f, "b", 12)
	f.Blind()
	before := f.Blindness()
	f.Blind()
	f.Sees(12, before) // which was read before the second change
	f.Raise(row(13))
	expect(t, &f, "b", 0)
	f.Sees(12, f.Blindness())
	expect(t, &f, "b", 13)
	if f.Blindness() != 0 {
		t.Error("the floor is blind")
	}

	f.Reset(row(2))
	expect(t, &f, "b", 0)
	f.Raise(row(3))
	expect(t, &f, "b", 3)
}

// TestFloorBound: changed channels are forgotten one by one, or all together, so that the memory is bounded.
func TestFloorBound(t *testing.T) {
	var f Floor
	f.Raise(row(1))
	for i := range 3 * maxChanged {
		f.Changed(fmt.Sprint(i), int64(1+i/maxChanged))
		expect(t, &f, fmt.Sprint(i), 0)
		if len(f.changed) > maxChanged {
			t.Fatal(len(f.changed))
		}
	}
	expect(t, &f, "0", 0)
	f.Raise(row(4))
	expect(t, &f, "0", 4)
	expect(t, &f, fmt.Sprint(3*maxChanged-1), 4)
	for i := range maxChanged { // those that count no more make room
		f.Changed(fmt.Sprint("again", i), 4)
	}
	expect(t, &f, "0", 4)
}
