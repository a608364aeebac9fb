//go:build !linux

package wire

import (
	"context"
	"net"
)

// local returns who dials; other systems have one loopback address, unless told
// otherwise.
func local(string, uint64) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext
}
