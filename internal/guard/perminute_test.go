package guard

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p PerMinute
		for _, step := range []struct {
			wait time.Duration
			key  string
			want bool
		}{
			{0, "a", true}, {0, "a", false}, {0, "b", true}, {59 * time.Second, "a", false}, {0, "", true},
			{time.Second, "a", true}, {0, "a", false}, {0, "b", true}, {time.Minute, "a", true},
		} {
			if time.Sleep(step.wait); p.Allow(step.key) != step.want {
				t.Errorf("%q after %v: not %v", step.key, step.wait, step.want)
			}
		}
	})
}

// Any number of keys of any length takes bounded memory, and the limit recovers.
func TestManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p PerMinute
		allow := func(what string, want int) {
			t.Helper()
			allowed := 0
			for i := range 10 * maxKeys {
				if p.Allow(fmt.Sprint(what, i)) {
					allowed++
				}
			}
			if allowed != want || len(p.at) > maxKeys {
				t.Errorf("%s: %d keys were allowed, %d are kept", what, allowed, len(p.at))
			}
		}
		allow("first", maxKeys)
		time.Sleep(interval - time.Nanosecond)
		allow("too early", 0)
		time.Sleep(time.Nanosecond)
		allow(strings.Repeat("long", 1000), maxKeys)
		time.Sleep(interval)
		if !p.Allow("first0") {
			t.Error("a key of long ago is not allowed")
		}
	})
}
