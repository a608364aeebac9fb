package servers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnnouncement(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ channel, text, name, primary string }{
		{promotes, "slave 10.0.0.2:6379 10.0.0.2 6379 @ main 10.0.0.1 6379", "main", "10.0.0.1:6379"},
		{promoted, "master main 10.0.0.1 6379", "main", "10.0.0.1:6379"},
		{aborted, "master main ::1 6379", "main", "[::1]:6379"},
		{switched, "main 10.0.0.1 6379 10.0.0.2 6380", "main", "10.0.0.2:6380"},
		{switched, "main 10.0.0.1 6379", "", ""},
		{promotes, "sentinel x 10.0.0.2 6379", "", ""},
		{promotes, "", "", ""},
	} {
		if name, primary, ok := announcement(tt.channel, tt.text); name != tt.name || primary != tt.primary || ok != (tt.name != "") {
			t.Errorf("%s %q: %q, %q, %v", tt.channel, tt.text, name, primary, ok)
		}
	}
}

// TestHold: commands wait until the failover is given up, or for 3 s, and no longer than
// their callers.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{opts: Options{SentinelMaster: "main"}, suspect: make(chan struct{}, 1)}
		const begin = "slave 10.0.0.2:6379 10.0.0.2 6379 @ main 10.0.0.1 6379"
		wait := func(end func()) (took time.Duration) {
			t.Helper()
			start := time.Now()
			time.AfterFunc(time.Second, end)
			if err := c.pause.wait(t.Context()); err != nil {
				t.Error(err)
			}
			took = time.Since(start)
			time.Sleep(time.Minute)
			return took
		}
		c.announced(0, promotes, "slave 10.0.0.2:6379 10.0.0.2 6379 @ other 10.0.0.1 6379")
		if took := wait(func() {}); took != 0 {
			t.Errorf("commands waited %v for the failover of another primary", took)
		}
		for name, test := range map[string]struct {
			end  func()
			want time.Duration
		}{
			"the same": {func() { c.release("10.0.0.1:6379") }, maxPause},
			"given up": {func() { c.announced(0, aborted, "master main 10.0.0.1 6379") }, time.Second},
			"nothing":  {func() {}, maxPause},
		} {
			c.announced(0, promotes, begin)
			c.announced(1, promotes, begin)
			if took := wait(test.end); took != test.want {
				t.Errorf("%s: commands waited %v, want %v", name, took, test.want)
			}
		}
		c.announced(2, promoted, "master main 10.0.0.1 6379")
		if c.next.Load() != 2 || len(c.suspect) != 1 {
			t.Errorf("the Sentinel asked first is %d, want the one that announced; asked at once: %v", c.next.Load(), len(c.suspect) == 1)
		}
		if c.pause.over("10.0.0.2:6379") {
			t.Error("commands wait, and nothing was announced")
		}
		c.announced(0, promotes, begin)
		if c.pause.over("10.0.0.1:6379") || !c.pause.over("10.0.0.2:6379") {
			t.Error("the end of a failover is not that another primary is named")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.pause.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that waits for a second: %v", err)
		}
		c.pause.end()
	})
}
