package client

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/internal/logtest"
)

// TestPressure: the client stops reading while an iterator has more than Options.Buffer, says so, and goes on when events
// are taken, or nobody wants them any more.
func TestPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRunner(t, ctx)
		defer func() {
			cancel()
			r.client.Close()
		}()
		for _, line := range []string{
			`client {}`, `do connect`, `event connecting {}`, `dial`, `open`, `C {"id":1,"connect":{}}`,
			`S {"id":1,"connect":{"client":"c1","ping":25}}`, `event connected {}`,
		} {
			r.do(line)
			synctest.Wait()
		}
		var log logtest.Buffer
		r.client.options.Buffer, r.client.options.Logger = 2, slog.New(slog.NewTextHandler(&log, nil))
		next, stop := iter.Pull(r.client.Events(ctx))
		defer stop()
		abandoned, leave := context.WithCancel(ctx)
		send := func(from, to int) {
			t.Helper()
			for n := from; n <= to; n++ {
				r.server(fmt.Sprintf(`{"push":{"message":{"data":%d}}}`, n))
			}
			synctest.Wait()
		}
		unread := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := r.conn.unread(); got != want {
				t.Errorf("%d frames are not read, want %d", got, want)
			}
		}
		send(1, 10)
		unread(7)
		// No ping and no reply can be read meanwhile, and the connection is not given up for that.
		s, err := r.client.NewSubscription("news", nil)
		r.must(err)
		s.Subscribe()
		r.client.Woke()
		time.Sleep(time.Minute)
		if state, reason := r.client.State(); state != Connected {
			t.Error(state, reason)
		}
		if text := log.String(); !strings.Contains(text, "holds the client up") || !strings.Contains(text, "Options.Buffer") {
			t.Error(text)
		}
		for n := 1; n <= 10; n++ {
			e, _ := next()
			if m, ok := e.(MessageEvent); !ok || string(m.Data) != fmt.Sprint(n) {
				t.Errorf("%d: %+v", n, e)
			}
		}
		unread(0)
		_ = r.client.Events(abandoned)
		send(11, 20)
		unread(7)
		leave()
		synctest.Wait()
		for n := 11; n <= 20; n++ {
			if e, _ := next(); e == nil {
				t.Fatal(n)
			}
		}
		unread(0)
		r.mu.Lock()
		r.told, r.left = nil, nil
		r.mu.Unlock()
	})
}
