package webtransport

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/gyrohq/gyro/transport/webtransport/internal/wttest"
)

// network is where the servers and clients of a test are: in memory, or, if it is nil, on this machine.
type network struct {
	router simnet.PerfectRouter
	last   byte           // of the addresses
	newest net.PacketConn // which has that
}

// inMemory runs a test in virtual time.
func inMemory(t *testing.T, test func(t *testing.T, n *network)) {
	synctest.Test(t, func(t *testing.T) { test(t, new(network)) })
}

// endpoint returns a socket, which ends with the test.
func (n *network) endpoint(t *testing.T) net.PacketConn {
	t.Helper()
	if n == nil {
		return wttest.UDP(t, "127.0.0.1:0")
	}
	n.last++
	address := &net.UDPAddr{IP: net.IPv4(10, 0, 0, n.last).To4(), Port: 443}
	link := &simnet.SimulatedLink{UploadPacket: &n.router, Latency: time.Millisecond}
	conn := simnet.NewBlockingSimConn(address, link)
	n.router.AddNode(address, link)
	link.Start()
	n.newest = conn
	t.Cleanup(func() {
		conn.Close()
		link.Close()
	})
	return conn
}

// dialQUIC opens a QUIC connection to a server. It ends with the test.
func (s *testServer) dialQUIC(ctx context.Context, cfg *quic.Config, tls *tls.Config) (*quic.Conn, error) {
	s.t.Helper()
	qt := &quic.Transport{Conn: s.network.endpoint(s.t)}
	s.t.Cleanup(func() {
		qt.Close()
		qt.Conn.Close()
	})
	return qt.Dial(ctx, s.Addr(), tls, cfg)
}
