//go:build !unix

package wire

import (
	"net"
	"syscall"
)

// rawReads: without it a link holds a buffer while it waits.
func rawReads(*net.TCPConn) syscall.RawConn { return nil }

func (l *Link) serveRaw(func([]byte) error) error { panic("not reached: rawReads returns nil") }
