package enginekit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		calls, begin := 0, time.Now()
		Every(ctx, time.Second, func() {
			if since := time.Since(begin); calls == 0 && (since <= time.Second/2 || since > time.Second*3/2) {
				t.Errorf("the first call after %v", since)
			}
			calls++
			time.Sleep(2500 * time.Millisecond)
		})
		if calls != 4 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		odd := errors.New("odd")
		err := AtOnce([]int{1, 2, 4}, func(n int) error {
			time.Sleep(time.Duration(n) * time.Second)
			if n%2 == 1 {
				return odd
			}
			return nil
		})
		if !errors.Is(err, odd) || time.Since(begin) != 4*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if err := AtOnce(nil, func(int) error { return odd }); err != nil {
			t.Error(err)
		}
	})
}

func TestSignal(t *testing.T) {
	ch := make(chan struct{}, 1)
	Signal(ch)
	Signal(ch)
	if len(ch) != 1 {
		t.Errorf("%d elements", len(ch))
	}
}
