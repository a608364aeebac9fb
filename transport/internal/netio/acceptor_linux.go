package netio

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Acceptor accepts the connections of a TCP listener as descriptors. One goroutine calls Accept; any may call Close.
type Acceptor struct {
	file *os.File // another descriptor of the listener, in Go's poller
	raw  syscall.RawConn

	// used by the goroutine that calls Accept
	attempt func(fd uintptr) bool
	batch   []Socket
	from    syscall.RawSockaddrAny
	n       int
	err     error
}

// NewAcceptor sets options of ln, which its connections inherit.
func NewAcceptor(ln *net.TCPListener) (*Acceptor, error) {
	raw, err := ln.SyscallConn()
	if err != nil {
		return nil, err
	}
	a := &Acceptor{}
	a.attempt = a.try
	var dup uintptr
	ctlErr := raw.Control(func(fd uintptr) {
		if err = setOptions(int(fd)); err == nil {
			dup, err = dupCloseOnExec(fd)
		}
	})
	if ctlErr != nil {
		return nil, ctlErr
	}
	if err != nil {
		return nil, err
	}
	a.file = os.NewFile(dup, "listener")
	if a.raw, err = a.file.SyscallConn(); err != nil {
		_ = a.file.Close()
		return nil, err
	}
	return a, nil
}

// setOptions sets on a listener the options that package net sets on each connection, with keepAlive. That connections
// inherit them saves five system calls each.
func setOptions(fd int) error {
	for _, o := range []struct{ level, name, value int }{
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, int(keepAlive.Idle / time.Second)},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, int(keepAlive.Interval / time.Second)},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keepAlive.Count},
	} {
		if err := syscall.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// Accept waits for connections, puts them into batch, and returns their number. Errors other than net.ErrClosed tell of
// a shortage.
func (a *Acceptor) Accept(batch []Socket) (int, error) {
	a.batch, a.n, a.err = batch, 0, nil
	if a.raw.Read(a.attempt) != nil {
		return 0, net.ErrClosed
	}
	return a.n, a.err
}

func (a *Acceptor) try(fd uintptr) bool {
	for a.n < len(a.batch) {
		nfd, errno := sysAccept(fd, &a.from)
		switch errno {
		case 0:
			a.batch[a.n] = Socket{FD: nfd, Remote: addrPort(&a.from)}
			a.n++
		case syscall.EAGAIN:
			return a.n > 0
		case syscall.EINTR, syscall.ECONNABORTED, syscall.EPROTO, syscall.EPERM, syscall.ENETDOWN, syscall.ENETUNREACH,
			syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENONET, syscall.ENOPROTOOPT, syscall.EOPNOTSUPP:
			// accept(2): the error concerns one connection only.
		default:
			if a.n == 0 {
				a.err = os.NewSyscallError("accept4", errno)
			}
			return true
		}
	}
	return true
}

func addrPort(sa *syscall.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case syscall.AF_INET:
		sa := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), hostOrder(sa.Port))
	case syscall.AF_INET6:
		sa := (*syscall.RawSockaddrInet6)(unsafe.Pointer(sa))
		ip := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.Scope_id != 0 && ip.Is6() {
			if i, err := net.InterfaceByIndex(int(sa.Scope_id)); err == nil {
				ip = ip.WithZone(i.Name)
			}
		}
		return netip.AddrPortFrom(ip, hostOrder(sa.Port))
	}
	return netip.AddrPort{}
}

func hostOrder(port uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return binary.BigEndian.Uint16(b[:])
}

// Close ends Accept. The listener itself stays open.
func (a *Acceptor) Close() error { return a.file.Close() }
