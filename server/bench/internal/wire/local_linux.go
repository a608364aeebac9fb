package wire

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"syscall"
)

// spread is over how many addresses of this machine connections to it come.
const spread = 64

// ipBindAddressNoPort is IP_BIND_ADDRESS_NO_PORT, which package syscall does not name.
const ipBindAddressNoPort = 24

// local returns who dials the nth connection to an address: to one of loopback, from
// one after the other of its addresses, all of which are this machine's. Each of them
// has ports of its own. With one alone they come to an end at 28,000 connections, and
// from half of that on the kernel searches for a third of the client's time.
func local(address string, n uint64) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{}
	if u, err := url.Parse(address); err == nil {
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.Is4() && ip.IsLoopback() {
			d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+n%spread))}
			d.Control = portByConnect
		}
	}
	return d.DialContext
}

// portByConnect leaves the choice of the port to connect, where it has to be free
// towards the server alone.
func portByConnect(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// At worst there are fewer ports.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
	})
}
