package wire

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"syscall"
)

// Local addresses of connections to loopback.
const spread = 64

// Package syscall does not have it.
const ipBindAddressNoPort = 24

// local returns the function that dials the nth connection to an address. Connections to loopback come from 127.0.0.1 to
// 127.0.0.64 in turn: one address has ports for 28,000 connections, and beyond 14,000 the kernel's search for a free
// port takes a third of the client's time.
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

// portByConnect has connect choose the local port instead of bind: connect may use every port without a connection to
// the same server.
func portByConnect(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		// If it fails, there are fewer ports.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipBindAddressNoPort, 1)
	})
}
