package lease

import (
	"sync"
	"testing"
)

func TestHolder(t *testing.T) {
	var h Holder
	want := func(info string, expireAt int64, held bool) {
		t.Helper()
		if l := h.Get(); string(l.Info) != info || l.ExpireAt != expireAt || (h.held.Load() != nil) != held {
			t.Errorf("%q until %d, want %q until %d", l.Info, l.ExpireAt, info, expireAt)
		}
	}
	want("", 0, false)
	h.Set(Lease{ExpireAt: 7})
	want("", 7, true)
	h.Set(Lease{Info: []byte("i")})
	want("i", 0, true)
	h.Set(Lease{})
	want("", 0, false)
	if n := testing.AllocsPerRun(100, func() { h.Set(Lease{}); h.Get() }); n > 0 {
		t.Errorf("%v allocations for a client without info and expiration", n)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if l := h.Get(); len(l.Info) != int(l.ExpireAt) {
					t.Errorf("half a lease: %+v", l)
				}
			}
		})
	}
	for i := range 1000 {
		h.Set(Lease{Info: make([]byte, i%5), ExpireAt: int64(i % 5)})
	}
	wg.Wait()
}
