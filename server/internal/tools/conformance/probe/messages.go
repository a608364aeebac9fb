package probe

import (
	"encoding/json"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Fossil is the name of the one kind of deltas.
const Fossil = "fossil"

// Raw embeds a payload in a request to the API.
func Raw(data []byte) json.RawMessage { return data }

func isJSON(text string) bool { return json.Valid([]byte(text)) }

// Unsubscribe makes the command.
func Unsubscribe(channel string) *protocol.Command {
	return &protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: channel}}
}

// History makes the command.
func History(r protocol.HistoryRequest) *protocol.Command { return &protocol.Command{History: &r} }

// Since makes the position of a request.
func Since(offset uint64, epoch string) *protocol.StreamPosition {
	return &protocol.StreamPosition{Offset: offset, Epoch: epoch}
}

// Request makes the command that subscribes to a channel, with a token if channels need one, and with the changes by
// edit.
func (t *Probe) Request(channel string, edit func(*protocol.SubscribeRequest)) *protocol.Command {
	r := &protocol.SubscribeRequest{Channel: channel, Positioned: true, Recoverable: true}
	if t.Signed {
		r.Token = t.SubToken(channel, 0)
	}
	if edit != nil {
		edit(r)
	}
	return &protocol.Command{Subscribe: r}
}

// SubToken returns the token of a subscription.
func (t *Probe) SubToken(channel string, ttl time.Duration) string {
	token, err := t.SignSubscription(channel, ttl)
	if err != nil {
		t.Fail("a subscription token cannot be signed: %v", err)
	}
	return token
}

// Subscribe subscribes to a channel.
func (c *Client) Subscribe(channel string) *protocol.SubscribeResult {
	return c.SubscribeWith(channel, nil)
}

// SubscribeWith subscribes to a channel by an edited request.
func (c *Client) SubscribeWith(channel string, edit func(*protocol.SubscribeRequest)) *protocol.SubscribeResult {
	return c.OK(c.Request(channel, edit)).Subscribe
}

// Recover subscribes from a position.
func (c *Client) Recover(channel string, offset uint64, epoch string) *protocol.SubscribeResult {
	return c.SubscribeWith(channel, From(offset, epoch))
}

// From edits a subscribe request.
func From(offset uint64, epoch string) func(*protocol.SubscribeRequest) {
	return func(r *protocol.SubscribeRequest) { r.Recover, r.Offset, r.Epoch = true, offset, epoch }
}

// Publish makes the command.
func Publish(channel string, data []byte) *protocol.Command {
	return &protocol.Command{Publish: &protocol.PublishRequest{Channel: channel, Data: data}}
}

// Publish publishes as the client.
func (c *Client) Publish(channel string, data []byte) {
	c.OK(Publish(channel, data))
}

// Leave ends a subscription.
func (c *Client) Leave(channel string) {
	c.OK(Unsubscribe(channel))
}

// IsPub says that a reply is a publication push.
func IsPub(r *protocol.Reply) bool { return r.Push != nil && r.Push.Pub != nil }

var errorsByCode = func() map[uint32]*protocol.Error {
	out := make(map[uint32]*protocol.Error)
	for _, e := range []*protocol.Error{
		protocol.ErrorInternal, protocol.ErrorUnauthorized, protocol.ErrorUnknownChannel, protocol.ErrorPermissionDenied,
		protocol.ErrorMethodNotFound, protocol.ErrorAlreadySubscribed, protocol.ErrorLimitExceeded, protocol.ErrorBadRequest,
		protocol.ErrorNotAvailable, protocol.ErrorTokenExpired, protocol.ErrorExpired, protocol.ErrorTooManyRequests,
		protocol.ErrorUnrecoverablePosition, protocol.ErrorConcurrentPagination,
	} {
		out[e.Code] = e
	}
	return out
}()

// Disconnects that servers send.
var endsByCode = func() map[uint32]protocol.Disconnect {
	out := make(map[uint32]protocol.Disconnect)
	for _, d := range []protocol.Disconnect{
		protocol.DisconnectShutdown, protocol.DisconnectServerError, protocol.DisconnectExpired, protocol.DisconnectSubExpired,
		protocol.DisconnectSlow, protocol.DisconnectWriteError, protocol.DisconnectInsufficientState, protocol.DisconnectForceReconnect,
		protocol.DisconnectNoPong, protocol.DisconnectTooManyRequests, protocol.DisconnectStateInvalidated, protocol.DisconnectInvalidToken,
		protocol.DisconnectBadRequest, protocol.DisconnectStale, protocol.DisconnectForceNoReconnect, protocol.DisconnectConnectionLimit,
		protocol.DisconnectChannelLimit, protocol.DisconnectInappropriateProtocol, protocol.DisconnectPermissionDenied,
		protocol.DisconnectNotAvailable, protocol.DisconnectTooManyErrors,
	} {
		out[d.Code] = d
	}
	return out
}()

// State edits a subscribe request into the first one of a catch-up with a map.
func State(r *protocol.SubscribeRequest) { r.Type, r.Phase = 1, 2 }

// Polled edits a subscribe request: to shared poll.
func Polled(r *protocol.SubscribeRequest) { r.Type = 4 }

// Set makes the command that sets a key of a map.
func Set(channel, key string, data []byte) *protocol.Command {
	return &protocol.Command{Publish: &protocol.PublishRequest{Channel: channel, Type: 1, Key: key, Data: data}}
}

// Remove makes the command that removes a key of a map.
func Remove(channel, key string) *protocol.Command {
	return &protocol.Command{Publish: &protocol.PublishRequest{Channel: channel, Type: 1, Key: key, Removed: true}}
}

// WithID gives a command an id.
func WithID(id uint32, cmd *protocol.Command) *protocol.Command {
	cmd.ID = id
	return cmd
}
