package netio

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

// options reads what package net sets of an accepted connection.
func options(t *testing.T, fd int) (list [5]int) {
	t.Helper()
	for i, o := range [][2]int{
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY}, {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
	} {
		v, err := syscall.GetsockoptInt(fd, o[0], o[1])
		if err != nil {
			t.Fatal(err)
		}
		list[i] = v
	}
	return list
}

// TestAcceptor: connections are as package net makes them with keepAlive, also when they go to it.
func TestAcceptor(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		plain, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(t.Context(), "tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer plain.Close()
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		a, err := NewAcceptor(ln.(*net.TCPListener))
		if err != nil {
			t.Fatal(err)
		}
		clients := make(map[string]bool)
		for range 3 {
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			clients[nc.LocalAddr().String()] = true
		}
		want := wanted(t, plain)
		if want[2] != 120 {
			t.Errorf("TCP_KEEPIDLE is %d, want 120", want[2])
		}
		var batch [2]Socket
		for len(clients) > 0 {
			n, err := a.Accept(batch[:])
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			for _, s := range batch[:n] {
				if !clients[s.Remote.String()] {
					t.Errorf("%s: a client at %s", addr, s.Remote)
				}
				delete(clients, s.Remote.String())
				if got := options(t, int(s.FD)); got != want {
					t.Errorf("%s: options %v, want %v", addr, got, want)
				}
				if n, err := TryRead(s.FD, make([]byte, 1)); n != 0 || err != nil {
					t.Errorf("%s: read %d, %v", addr, n, err)
				}
				nc, err := NewHandover(s.FD).Conn()
				if err != nil {
					t.Fatal(err)
				}
				if got := optionsOf(t, nc); got != want {
					t.Errorf("%s: options of the conn %v, want %v", addr, got, want)
				}
				nc.Close()
			}
		}
		ended := make(chan error)
		go func() {
			_, err := a.Accept(batch[:])
			ended <- err
		}()
		a.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept ended with %v", err)
		}
	}
}

// wanted is what package net sets.
func wanted(t *testing.T, ln net.Listener) [5]int {
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	return optionsOf(t, b)
}

func optionsOf(t *testing.T, c net.Conn) (list [5]int) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { list = options(t, int(fd)) })
	return list
}

// TestHandoverNoSocket: what cannot become a connection can be closed.
func TestHandoverNoSocket(t *testing.T) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	for _, fd := range p {
		h := NewHandover(uintptr(fd))
		if c, err := h.Conn(); err == nil {
			t.Errorf("got %v", c)
		}
		h.Close()
		if err := syscall.Close(fd); !errors.Is(err, syscall.EBADF) {
			t.Errorf("still open: %v", err)
		}
	}
}
