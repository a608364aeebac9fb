package web

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// TestKeepIdle: the kernel asks no client that answers pings whether it is there, where connections do not live on loops either.
func TestKeepIdle(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() (net.Listener, error){
		"http": func() (net.Listener, error) { return (&Listener{addr: "127.0.0.1:0"}).listen() },
		"grpc": func() (net.Listener, error) {
			g := GRPCListener{addr: "127.0.0.1:0"}
			err := g.Open(new(Reserve))
			return g.ln, err
		},
	} {
		ln, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		accepted, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		raw, err := accepted.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			seconds, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
			if err != nil || time.Duration(seconds)*time.Second != 2*time.Minute {
				t.Errorf("%s: TCP_KEEPIDLE %d, %v", name, seconds, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
