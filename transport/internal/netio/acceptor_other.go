//go:build !linux

package netio

import (
	"errors"
	"net"
)

// Acceptor does not exist on this system.
type Acceptor struct{}

// NewAcceptor fails.
func NewAcceptor(*net.TCPListener) (*Acceptor, error) { return nil, errors.ErrUnsupported }

// Accept is not called.
func (*Acceptor) Accept([]Socket) (int, error) { return 0, errors.ErrUnsupported }

// Close is not called.
func (*Acceptor) Close() error { return nil }
