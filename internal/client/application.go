package client

import (
	"context"
	"errors"

	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
)

// Application is the program that the node serves. A method is called only if it is
// among session.Config.Handles, but for Connecting, which always is. It fills in what an effect
// has to bring; an error is the effect's. What panics for a client becomes an error.
type Application interface {
	// Connecting returns the values of the client's context, and its meta, either of
	// which may be nil. ctx is that of the request.
	Connecting(ctx context.Context, c *Client, e *session.Connecting, inline bool) (values context.Context, meta []byte, err error)
	Connected(ctx context.Context, c *Client)
	Subscribe(ctx context.Context, c *Client, e *session.Subscribing, inline bool) error
	Unsubscribed(ctx context.Context, c *Client, it *session.DetachItem)
	Publish(ctx context.Context, c *Client, e *session.Publish) error
	// Presence, PresenceStats and History allow (nil) or refuse.
	Presence(ctx context.Context, c *Client, e *session.Presence) error
	PresenceStats(ctx context.Context, c *Client, e *session.PresenceStats) error
	History(ctx context.Context, c *Client, e *session.History) error
	RPC(ctx context.Context, c *Client, e *session.RPC) error
	Message(ctx context.Context, c *Client, e *session.Message) error
	// Refresh returns new meta, unless it is nil.
	Refresh(ctx context.Context, c *Client, e *session.Refresh) (meta []byte, err error)
	SubRefresh(ctx context.Context, c *Client, e *session.SubRefresh) error
	Disconnected(ctx context.Context, c *Client, d protocol.Disconnect)
}

// ErrWouldBlock is the answer of Connecting and Subscribe that cannot be given inline.
var ErrWouldBlock = errors.New("gyro: the handler would block")
