package wait

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	message string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) { f.message = fmt.Sprintf(format, args...) }

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		after := func(d time.Duration) func() bool { return func() bool { return time.Since(start) >= d } }
		Until(t, "at once", after(0))
		if took := time.Since(start); took != 0 {
			t.Errorf("a condition that holds takes %v", took)
		}
		Until(t, "a second", after(time.Second))
		if took := time.Since(start); took < time.Second || took > time.Second+longest {
			t.Errorf("a condition that holds after 1 s takes %v", took)
		}
		calls := 0
		Success(t, "the third call", func() error {
			if calls++; calls < 3 {
				return errors.New("too early")
			}
			return nil
		})
		if calls != 3 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		start := time.Now()
		Until(f, "peace", func() bool { return false })
		if took := time.Since(start); f.message != "not within 1m0s: peace" || took < Limit || took > Limit+longest {
			t.Errorf("%q after %v", f.message, took)
		}
		Success(f, "peace", func() error { return errors.New("war") })
		if f.message != "not within 1m0s: peace: war" {
			t.Error(f.message)
		}
		if Within(0, func() bool { return false }) {
			t.Error("a condition that does not hold")
		}
		if !Within(0, func() bool { return true }) {
			t.Error("a condition that holds was not asked for")
		}
	})
}
