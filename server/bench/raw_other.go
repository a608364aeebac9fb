//go:build !unix

package bench

import (
	"net"
	"syscall"
)

// rawReads: without it a link holds a buffer while it waits.
func rawReads(*net.TCPConn) syscall.RawConn { return nil }

func (l *link) serveRaw(func([]byte) error) error { panic("not reached: rawReads returns nil") }

func ensureFiles(int) error { return nil }
