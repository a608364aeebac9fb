package servers

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// peer is a connection to a node.
type peer struct{ net.Conn }

func (peer) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

func TestRangesIn(t *testing.T) {
	const text = `9b8c 127.0.0.1:14682@24682 master,fail - 0 1795348938625 3 disconnected
3666 :10788@20788,name myself,master - 0 1795348938000 1 connected 0-99 101 [100->-9b8c]
027c 10.0.0.9:11406@21406 master - 0 1795348939327 4 connected 10922-16383
e468 [::1]:14920@24920 slave 027c 0 1795348939327 2 connected
5555 127.0.0.1:1@2 master - 0 0 2 connected 100 5461-10921 x-y 1-
short
`
	want := []slotRange{
		{0, 99, "10.0.0.1:10788"}, {101, 101, "10.0.0.1:10788"}, {10922, 16383, "10.0.0.9:11406"},
		{100, 100, "127.0.0.1:1"}, {5461, 10921, "127.0.0.1:1"},
	}
	if diff := cmp.Diff(want, rangesIn(text, peer{}), cmp.AllowUnexported(slotRange{})); diff != "" {
		t.Error(diff)
	}
}
