//go:build !race

package gyro_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// TestBookmarkAllocations: what a publication costs does not depend on the number of subscribers that
// have bookmarks, of one channel or of several.
func TestBookmarkAllocations(t *testing.T) {
	for _, channels := range [][]string{{"ch"}, {"ch", "b", "c"}, {"ch", "1", "2", "3", "4", "5", "6", "7", "8", "9"}} {
		for _, n := range []int{1, 100, 1000} {
			if got := allocations(1, 200, bookmarked(t, n, channels)); got > 1 {
				t.Errorf("%d subscribers of %d channels: %v allocations", n, len(channels), got)
			}
		}
	}
}

// bookmarked connects n clients with bookmarks. It returns a function that publishes and waits until
// all have got it.
func bookmarked(tb testing.TB, n int, channels []string) (publish func()) {
	node := run(tb, undisturbed(gyro.Config{Handlers: granted(channels...)}))
	writes := new(atomic.Int64)
	arrived := func(want int64) {
		for writes.Load() < want {
			runtime.Gosched()
		}
		writes.Store(0)
	}
	for range n {
		peer, err := node.Accept(context.Background(), &sink{writes}, transport.Info{
			Name: "sink", Framer: wstest.Framer(protocol.JSON), Mode: transport.OneWay, Bookmarks: 4096, Connect: new(protocol.ConnectRequest),
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { peer.Closed(nil) })
		arrived(1)
	}
	data, o := []byte(`{"text":"hello, world"}`), keep(10, time.Hour)
	return func() {
		if _, err := node.Publish(context.Background(), "ch", data, o); err != nil {
			tb.Fatal(err)
		}
		arrived(int64(n))
	}
}
