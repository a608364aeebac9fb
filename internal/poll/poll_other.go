//go:build !linux

package poll

import (
	"errors"

	"github.com/gyrohq/gyro/transport"
)

// Poller does not exist on this system: transports use goroutines.
type Poller struct{}

// New fails.
func New() (*Poller, error) {
	return nil, errors.New("watching sockets is not supported on this system")
}

// Supported reports whether New works on this system.
func Supported() bool { return false }

// Without a Poller, these methods are never called.

func (*Poller) Watch(int, transport.Watcher, bool, bool) error { return errors.ErrUnsupported }
func (*Poller) Change(int, bool, bool) error                   { return errors.ErrUnsupported }
func (*Poller) Unwatch(int)                                    {}
func (*Poller) Forget(int)                                     {}
func (*Poller) Poll(func() bool, *any) bool                    { return false }
func (*Poller) Wait(func())                                    {}
func (*Poller) Close()                                         {}
