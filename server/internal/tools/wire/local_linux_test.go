package wire

import (
	"net"
	"net/netip"
	"testing"
)

// TestLocal: connections to loopback come from addresses in turn, each free to use
// the ports of the others, and others from where the system says.
func TestLocal(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial := func(address string, n uint64) netip.Addr {
		out, err := local(address, n)(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		in, err := ln.Accept() // at once: the dial has succeeded
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		return netip.MustParseAddrPort(in.RemoteAddr().String()).Addr()
	}
	seen := make(map[netip.Addr]int)
	for n := range uint64(2 * spread) {
		seen[dial("ws://127.0.0.1:8000/connection/websocket", n)]++
	}
	for a, n := range seen {
		if !a.IsLoopback() || n != 2 {
			t.Errorf("%d connections from %s", n, a)
		}
	}
	if len(seen) != spread {
		t.Errorf("connections from %d addresses, want %d", len(seen), spread)
	}
	for _, address := range []string{"ws://localhost:8000", "ws://[::1]:8000", "wss://192.0.2.1", "ws://127.0.0.1.example", "%"} {
		if a := dial(address, 7); a != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%s: dialled from %s", address, a)
		}
	}
}
