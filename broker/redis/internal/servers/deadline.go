package servers

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// noAnswer is no context.DeadlineExceeded: the call that asked the server may have time left; see failedForAnother.
type noAnswer struct{ limit time.Duration }

func (e noAnswer) Error() string        { return "no answer within " + e.limit.String() }
func (e noAnswer) Timeout() bool        { return true }
func (e noAnswer) Temporary() bool      { return true }
func (e noAnswer) Is(target error) bool { return target == os.ErrDeadlineExceeded }

func answerWithin(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, noAnswer{limit})
}

// within runs do. When ctx ends first, it closes the connection and returns the cause of that end.
func within(ctx context.Context, raw net.Conn, do func() error) error {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	err := do()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// closeCause is why this process closes a connection, the error of reads and writes from then on.
type closeCause struct{ first atomic.Pointer[error] }

// setCause comes before the close. The first cause stays.
func (c *closeCause) setCause(err error) { c.first.CompareAndSwap(nil, &err) }

func (c *closeCause) explain(err error) error {
	if cause := c.first.Load(); err != nil && cause != nil {
		return *cause
	}
	return err
}
