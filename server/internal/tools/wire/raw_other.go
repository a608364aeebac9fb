//go:build !unix

package wire

import (
	"net"
	"syscall"
)

// rawReads returns nil: a connection holds a buffer while it waits.
func rawReads(*net.TCPConn) syscall.RawConn { return nil }

func (c *Conn) serveRaw(func([]byte) error) error { panic("not reached: rawReads returns nil") }
