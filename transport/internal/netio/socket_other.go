//go:build !unix

package netio

import (
	"errors"
	"net"
)

func newSocket(Duplex) Stream { return nil }

// Detach is not possible on this system.
func Detach(Stream) (fd uintptr, ok bool) { return 0, false }

// The following are not called, as there are no descriptors.

func TryWrite(uintptr, [][]byte) (int, error) { return 0, errors.ErrUnsupported }
func TryRead(uintptr, []byte) (int, error)    { return 0, errors.ErrUnsupported }
func Attach(uintptr) (net.Conn, error)        { return nil, errors.ErrUnsupported }
func CloseFD(uintptr, bool)                   {}
func ShutdownWrite(uintptr)                   {}
