package session

import (
	"testing"
	"unsafe"
)

// What there is once per connection and once per subscription is not to grow by
// accident.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64-bit systems")
	}
	for _, s := range []struct {
		name        string
		size, limit uintptr
	}{
		{"Session", unsafe.Sizeof(Session{}), 232},
		{"Subscription", unsafe.Sizeof(Subscription{}), 112},
	} {
		if s.size > s.limit {
			t.Errorf("%s has %d bytes, limit %d", s.name, s.size, s.limit)
		}
	}
}
