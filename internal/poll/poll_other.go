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

// Supported tells whether New works on this system.
func Supported() bool { return false }

// Watch is not to be called.
func (*Poller) Watch(int, transport.Watcher, bool, bool) error { return errors.ErrUnsupported }

// Change is not to be called.
func (*Poller) Change(int, bool, bool) error { return errors.ErrUnsupported }

// Unwatch is not to be called.
func (*Poller) Unwatch(int) {}

// Len is 0.
func (*Poller) Len() int { return 0 }

// Poll is not to be called.
func (*Poller) Poll(func() bool, *any) bool { return false }

// Wait is not to be called.
func (*Poller) Wait() error { return errors.ErrUnsupported }

// Close does nothing.
func (*Poller) Close() {}
