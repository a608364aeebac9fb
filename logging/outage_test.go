package logging

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outage
		first, second := errors.New("first"), errors.New("second")
		for range 2 {
			if n, since := o.End(); n != 0 || !since.IsZero() || o.Err() != nil {
				t.Errorf("%d failures of nothing, since %v", n, since)
			}
			began := time.Now()
			if o.Fail(first) != 1 {
				t.Error("an outage has not begun")
			}
			time.Sleep(time.Second)
			if o.Fail(second) != 2 || !errors.Is(o.Err(), second) {
				t.Error("an outage has begun twice")
			}
			if n, since := o.End(); n != 2 || !since.Equal(began) {
				t.Errorf("%d failures since %v", n, since)
			}
		}
	})
}

// TestOutageOfMany: many goroutines fail, one of them begins the outage; many succeed, one of them ends it.
func TestOutageOfMany(t *testing.T) {
	var o Outage
	var begun, ended atomic.Int64
	each := func(do func()) {
		var group sync.WaitGroup
		for range 100 {
			group.Go(do)
		}
		group.Wait()
	}
	each(func() {
		if o.Fail(errors.New("down")) == 1 {
			begun.Add(1)
		}
	})
	each(func() {
		if n, _ := o.End(); n > 0 {
			ended.Add(int64(n))
		}
	})
	if begun.Load() != 1 || ended.Load() != 100 {
		t.Errorf("%d begun, %d failures ended", begun.Load(), ended.Load())
	}
}
