//go:build !linux

package netio

import (
	"errors"
	"net"
)

// Acceptor does not exist on this system. Its methods are never called.
type Acceptor struct{}

// NewAcceptor fails.
func NewAcceptor(*net.TCPListener) (*Acceptor, error) { return nil, errors.ErrUnsupported }

func (*Acceptor) Accept([]Socket) (int, error) { return 0, errors.ErrUnsupported }
func (*Acceptor) Close() error                 { return nil }
