package loop

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/beat"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loops := []*Loop{New(), New()}
		for _, l := range loops {
			go l.Run()
			defer l.Close()
		}
		p := NewPulse(loops, nil)
		want := func(delay time.Duration, text string) {
			t.Helper()
			synctest.Wait()
			d, err := p.Health()
			if d != delay || (err == nil) != (text == "") || err != nil && err.Error() != text {
				t.Errorf("%v and %v, want %v and %q", d, err, delay, text)
			}
		}
		want(0, "")
		time.Sleep(beat.Until(pulseInterval))
		p.Begin()
		time.Sleep(10 * time.Second)
		want(0, "")
		release := make(chan struct{})
		time.Sleep(500 * time.Millisecond)
		loops[1].Post(Func(func() { <-release }))
		time.Sleep(3500 * time.Millisecond) // the canary left half a second later
		want(3*time.Second, "")
		time.Sleep(time.Second)
		want(4*time.Second, "gyro: loop 1 has not come round for 4s")
		close(release)
		want(4*time.Second, "") // until the next canary is back
		time.Sleep(2 * time.Second)
		want(0, "")
		p.End()
		p.End()
	})
}

func TestPulseOfLoopsThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		go l.Run()
		p := NewPulse([]*Loop{l}, nil)
		p.Begin()
		defer p.End()
		l.Close()
		time.Sleep(time.Minute)
		if _, err := p.Health(); err == nil || !strings.Contains(err.Error(), "loop 0") {
			t.Error(err)
		}
	})
}
