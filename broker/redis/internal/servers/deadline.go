package servers

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// noAnswer is the error of a server that was silent for the whole time limit. It is no context.DeadlineExceeded: the call
// that asked the server may have time left, and no other call has run out of it; see failedForAnother.
type noAnswer struct{ limit time.Duration }

func (e noAnswer) Error() string        { return "no answer within " + e.limit.String() }
func (e noAnswer) Timeout() bool        { return true }
func (e noAnswer) Temporary() bool      { return true }
func (e noAnswer) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// answerWithin bounds the time that a server has for its answers.
func answerWithin(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, noAnswer{limit})
}

// within runs do, which talks over a connection. When ctx ends first, it closes the connection, and the error is the cause of
// that end, not the error of do.
func within(ctx context.Context, raw net.Conn, do func() error) error {
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	err := do()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// closeCause is the reason why this process closes a connection. Reads and writes that fail because of the end return the reason.
type closeCause struct{ first atomic.Pointer[error] }

// setCause notes the cause before the connection is closed. The first cause stays.
func (c *closeCause) setCause(err error) { c.first.CompareAndSwap(nil, &err) }

// explain returns the cause for an error of the connection, if there is one.
func (c *closeCause) explain(err error) error {
	if cause := c.first.Load(); err != nil && cause != nil {
		return *cause
	}
	return err
}
