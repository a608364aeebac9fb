package client

import (
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

type ending struct {
	reason   Reason
	failure  Error // the error of an attempt for the application; the zero value: the transport was closed
	cause    error // of the failure
	last     bool  // the client does not try again
	politely bool  // with a Close frame
}

func (e *ending) with(err error) error {
	if e.cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, e.cause)
}

// gone is called when the connection, or an attempt, has ended, or shall end.
func (c *Client) gone(end ending) {
	if c.state == Connected && c.now().Sub(c.since) >= lasting {
		c.failed = 0
	}
	l := c.link
	if l != nil {
		l.cut(end.politely)
	}
	if _, same := end.cause.(protocol.Disconnect); same && (end.last || c.state == Connected) { //nolint:errorlint // nothing wraps it
		end.cause = nil // the reason is the same
	}
	switch {
	case end.last:
		c.tries.stop()
		c.next = time.Time{}
		c.enter(Disconnected, end.reason)
		c.queues.Push(DisconnectedEvent{Reason: end.reason, Err: end.cause})
		c.logEnd(end)
	case c.state == Connected:
		c.schedule()
		c.enter(Connecting, end.reason)
		c.failure = end.with(end.reason)
		c.queues.Push(ConnectingEvent{Reason: end.reason, Err: end.cause, NextAttempt: c.next})
		c.logAttempt("the connection is lost", end.with(end.reason))
	default:
		c.missed(end)
	}
	c.trying = false
	c.abandon(l, end)
}

func (c *Client) missed(end ending) {
	if end.failure.Code == 0 {
		end.failure = *errTransport
	}
	c.failure = end.with(&end.failure)
	transport := c.dialer.Name()
	elsewhere := c.trying && c.dialer.Failed != nil && c.dialer.Failed() // there is another way, which is tried at once
	c.hurry = elsewhere
	c.schedule()
	if !elsewhere {
		c.queues.Push(ErrorEvent{Code: end.failure.Code, Message: end.failure.Message, Err: c.failure, NextAttempt: c.next})
	}
	c.logAttempt("an attempt to connect has failed", c.failure, "transport", transport)
}

func (c *Client) logAttempt(text string, err error, more ...any) {
	wait := time.Duration(0)
	if !c.next.IsZero() {
		wait = c.next.Sub(c.now()).Round(time.Millisecond)
	}
	c.options.Logger.Info(text, append(more, "error", err, "next_attempt_in_ms", wait.Milliseconds())...)
}

func (c *Client) logEnd(end ending) {
	if end.reason == DisconnectCalled {
		c.options.Logger.Debug("the program has disconnected the client")
		return
	}
	c.options.Logger.Warn("the client is disconnected, and does not connect again by itself", "error", end.with(end.reason))
}

func (c *Client) abandon(l *link, end ending) {
	for _, s := range c.subs.All() {
		if c.closed {
			s.leave(ClientClosed)
			continue
		}
		s.lost()
		if end.last {
			s.disconnected(DisconnectedEvent{Reason: end.reason, Err: end.cause})
		}
	}
	if l != nil && l.connected {
		for _, s := range c.server {
			switch {
			case !s.live:
			case end.last:
				c.queues.Push(UnsubscribedEvent{s.channel, DisconnectCalled})
			default:
				c.queues.Push(SubscribingEvent{s.channel, TransportClosed})
			}
			s.live = false
		}
	}
	if l != nil {
		why := c.failure
		if end.last {
			why = end.with(end.reason)
		}
		l.forget(fmt.Errorf("%w: %w", ErrLost, why))
	}
	if end.last {
		waiting := c.calls
		c.calls = nil
		for _, call := range waiting {
			call.done(nil, c.disconnected())
		}
	}
}
