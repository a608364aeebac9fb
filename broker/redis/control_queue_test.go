package redis

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A control message waits a while for room. If there is none, the receiver must not wait for
// each of those that follow.
func TestBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newControlQueue("all", "node", nil, slog.New(slog.DiscardHandler))
		c.queue, c.done = make(chan []byte, 1), make(chan struct{})
		receive := func(name string) time.Duration {
			start := time.Now()
			c.receive([]byte(name), []byte("x"))
			return time.Since(start)
		}
		want := func(name string, wait time.Duration, dropped uint64) {
			t.Helper()
			if took := receive(name); took != wait || c.dropped.Load() != dropped {
				t.Errorf("%s took %v, %d dropped, want %v, %d", name, took, c.dropped.Load(), wait, dropped)
			}
		}
		want("other", 0, 0)
		want("all", 0, 0)
		go func() {
			time.Sleep(controlPatience / 2)
			<-c.queue
		}()
		want("node", controlPatience/2, 0)
		want("all", controlPatience, 1)
		want("all", 0, 2)
		if c.offer([]byte("all"), nil) || c.offer([]byte("other"), nil) {
			t.Error("taken without room, or of another channel")
		}
		<-c.queue
		want("all", 0, 2)
		want("all", controlPatience, 3)
		close(c.done)
		<-c.queue
		want("all", 0, 3)
	})
}
