//go:build !unix

package netio

import "errors"

func newSocket(Duplex) Stream { return nil }

// Detach is not possible on this system.
func Detach(Stream) (fd uintptr, t *TLS, ok bool) { return 0, nil, false }

// Never called, as there are no descriptors.

func TryWrite(uintptr, [][]byte) (int, error) { return 0, errors.ErrUnsupported }
func TryRead(uintptr, []byte) (int, error)    { return 0, errors.ErrUnsupported }
func CloseFD(uintptr, bool)                   {}
func ShutdownWrite(uintptr)                   {}
