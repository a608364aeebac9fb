package pace

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			passes, takes time.Duration
			kept          bool
		}{
			{0, 0, true},
			{0, time.Second - 1, true},
			{0, time.Second, false},
			{time.Hour, time.Hour + time.Second - 1, true},
			{time.Hour, time.Hour + time.Second, false},
		} {
			reached := false
			kept := Try(time.Second, func(c *Clock) {
				c.Pass(tt.passes)
				time.Sleep(tt.takes)
				c.Check()
				reached = true
			})
			if kept != tt.kept || reached != tt.kept {
				t.Errorf("%+v: kept %v, reached the end %v", tt, kept, reached)
			}
		}
	})
}

// TestPart: waiting counts between BeginPart and EndPart alone.
func TestPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, takes := range []time.Duration{time.Minute - 1, time.Minute} {
			released := false
			kept := Try(time.Second, func(c *Clock) {
				c.BeginPart(time.Minute)
				c.Pass(takes)
				time.Sleep(takes)
				c.EndPart()
				released = true
				c.Pass(time.Hour)
				time.Sleep(time.Hour)
				c.Check()
			})
			if want := takes < time.Minute; kept != want || released != want {
				t.Errorf("%v: kept %v, released %v", takes, kept, released)
			}
		}
	})
}

func TestOtherPanics(t *testing.T) {
	defer func() {
		if r := recover(); r == nil {
			t.Error("a panic of the test is lost")
		}
	}()
	Try(time.Second, func(*Clock) { panic(errors.New("other")) })
}

func TestNoClock(t *testing.T) {
	var c *Clock
	c.Pass(time.Second)
	c.BeginPart(0)
	c.Check()
	c.EndPart()
}
