package session

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/gyrohq/gyro/channel"
)

// TestBudget: a client that has info or expires pays nothing for the token that another one has.
func TestBudget(t *testing.T) {
	if n := unsafe.Sizeof(packedCredentials{}); n > 32 {
		t.Errorf("a lease takes %d bytes, want at most 32", n)
	}
}

func TestHolder(t *testing.T) {
	var h credentialsHolder
	want := func(info string, expireAt int64, held bool) {
		t.Helper()
		if l := h.Get(); string(l.Info) != info || l.ExpireAt != expireAt || (h.packed.Load() != nil) != held {
			t.Errorf("%q until %d, want %q until %d", l.Info, l.ExpireAt, info, expireAt)
		}
	}
	want("", 0, false)
	h.Set(credentials{ExpireAt: 7})
	want("", 7, true)
	h.Set(credentials{Info: []byte("i")})
	want("i", 0, true)
	h.Set(credentials{})
	want("", 0, false)
	if n := testing.AllocsPerRun(100, func() { h.Set(credentials{}); h.Get() }); n > 0 {
		t.Errorf("%v allocations for a client without info and expiration", n)
	}
	h.Set(credentials{Info: []byte("i"), ExpireAt: 7, Token: &channel.Token{ID: "a"}})
	h.Prolong(credentials{ExpireAt: 8})
	want("i", 8, true)
	if l := h.Get(); l.Token == nil || l.Token.ID != "a" || cap(l.Info) != 1 {
		t.Errorf("prolonging left %+v", l)
	}
	h.Prolong(credentials{Info: []byte{}, Token: &channel.Token{ID: "b"}})
	want("", 0, true)
	if l := h.Get(); l.Token.ID != "b" || l.Info == nil {
		t.Errorf("prolonging left %+v", l)
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
		h.Set(credentials{Info: make([]byte, i%5), ExpireAt: int64(i % 5)})
	}
	wg.Wait()
}
