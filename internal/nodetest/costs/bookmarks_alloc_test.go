//go:build !race

package costs

import (
	"context"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
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
	node := nodetest.Run(tb, undisturbed(gyro.Config{Handlers: nodetest.Granted(channels...)}))
	conn, with := newSink(), info
	with.Mode, with.Bookmarks, with.Connect = transport.OneWay, 4096, new(protocol.ConnectRequest)
	for range n {
		conn.await(1, func() {
			peer, err := node.Accept(context.Background(), conn, with)
			nodetest.Must(tb, err)
			tb.Cleanup(func() { peer.Closed(nil) })
		})
	}
	return publisher(tb, node, conn, n, nodetest.Keep(10, time.Hour))
}
