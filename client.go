package gyro

import (
	"context"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/client"
	"github.com/gyrohq/gyro/protocol"
)

// Client is one connection. Any goroutine and any handler may call its methods. Send, Subscribe, Unsubscribe, Refresh
// and Disconnect return at once, take effect in the order of their calls, and do nothing after the end of the
// connection. Methods with a context wait for the client's loop, so handlers that are called inline
// (Config.InlineHandlers) must not call them. All others cost a few loads.
type Client client.Client

func (c *Client) inner() *client.Client { return (*client.Client)(c) }
func (c *Client) node() *Node           { return (*Node)(c.inner().Application().(*application)) }

// ID of the client: a random UUID.
func (c *Client) ID() string { return c.inner().ID() }

// UserID of the client; empty for anonymous ones.
func (c *Client) UserID() string { return c.inner().UserID() }

// Transport describes the client's connection.
func (c *Client) Transport() TransportInfo {
	v := c.inner().Session().Via()
	return TransportInfo{Name: v.Name, Encoding: v.Framer.Encoding(), RemoteAddr: c.inner().RemoteAddr(), Mode: v.Mode}
}

// Context has the values of ConnectReply.Context and ends with the connection. Handlers for earlier commands still run
// after that: see Handlers.
func (c *Client) Context() context.Context { return c.inner().Context() }

// Meta of the Credentials, or of the last RefreshReply with a Meta; may be nil. It must not be modified.
func (c *Client) Meta() []byte { return c.inner().Known().Meta }

// Capabilities of the Credentials, or of the last RefreshReply with Capabilities; may be nil.
func (c *Client) Capabilities() *channel.Capabilities { return c.inner().Known().Capabilities }

// Info that others see, of the Credentials or of the last RefreshReply or RefreshOptions with an Info; may be nil. It
// must not be modified.
func (c *Client) Info() []byte { return c.inner().Session().Info() }

// Send pushes a message. data must not be modified afterwards. Data that is not JSON is an error for a JSON connection,
// unless the node is Binary.
func (c *Client) Send(data []byte) error {
	if err := c.node().value(c, "the data of Send", data); err != nil {
		return err
	}
	c.inner().Post(func() { c.inner().Session().Send(data) })
	return nil
}

// Subscribe makes a server-side subscription, in place of one that the client has to the channel. Options that
// contradict each other or the channel, and payloads that are not JSON, are errors. Later errors, such as an expiration
// in the past, are logged.
func (c *Client) Subscribe(ch string, o *SubscribeOptions) error {
	opts := orZero(o)
	if err := c.node().rules.Subscribe(ch, &opts); err != nil {
		return err
	}
	c.inner().Post(func() { c.inner().Subscribe(ch, &opts) })
	return nil
}

// Unsubscribe ends a subscription, server-side or not, with code 2000.
func (c *Client) Unsubscribe(ch string) {
	c.inner().Post(func() { c.inner().Session().ServerUnsubscribe(ch, protocol.UnsubscribeServer) })
}

// Refresh changes the expiration of the connection, and tells the client. Info that is not JSON is an error, unless the
// node is Binary.
func (c *Client) Refresh(o *RefreshOptions) error {
	opts := orZero(o)
	if err := c.node().rules.Value("RefreshOptions.Info", opts.Info); err != nil {
		return err
	}
	c.inner().Post(func() { c.inner().Session().ServerRefresh(opts.Expired, channel.ToUnix(opts.ExpireAt), opts.Info) })
	return nil
}

// Disconnect closes the connection. For a code that is not from 3000 to 4999 it logs an error and takes
// DisconnectForceNoReconnect.
func (c *Client) Disconnect(d Disconnect) {
	if err := d.Check(); err != nil {
		c.node().cfg.Logger.Error("Client.Disconnect has a code that no client can get", "client", c.ID(), "user", c.UserID(), "error", err)
		d = DisconnectForceNoReconnect
	}
	c.inner().Post(func() { c.inner().Session().CloseAfterDelivery(d) })
}

// SubscriptionInfo describes one subscription of a client: ServerSide, Source, Token, and if it is Positioned, the
// Offset and Epoch that the client has reached. See "go doc github.com/gyrohq/gyro/inspect.Subscription".
type SubscriptionInfo = inspect.Subscription

// IsSubscribed reports whether the client is subscribed to a channel. It waits, and fails, as Subscriptions does.
func (c *Client) IsSubscribed(ctx context.Context, ch string) (bool, error) {
	var subscribed bool
	if err := c.inner().Call(ctx, func() { subscribed = c.inner().Session().Subscribed(ch) }); err != nil {
		return false, err
	}
	return subscribed, nil
}

// Subscriptions returns the established subscriptions by channel; none after the end of the connection. It waits for
// earlier calls of the other methods: microseconds, or milliseconds on a busy node. The error is of ctx, or
// protocol.DisconnectShutdown once the node has ended. A subscription is established when the engines have it and the
// client is told.
func (c *Client) Subscriptions(ctx context.Context) (subs map[string]SubscriptionInfo, err error) {
	var found map[string]SubscriptionInfo
	if err = c.inner().Call(ctx, func() { found = c.inner().Session().Subscriptions() }); err != nil {
		return nil, err
	}
	return found, nil
}
