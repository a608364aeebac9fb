// Package mobile is the client for programs on phones: package client, with the types alone that gomobile bind accepts. Android
// and iOS get classes from it:
//
//	gomobile bind -target android -o gyro.aar github.com/gyrohq/gyro/client/mobile
//
// Methods that return an error wait for the network: call them beside the main thread. Listeners are called one call at
// a time, on threads of their own, and may call everything but Close. Offsets and times are of 64 bits.
package mobile

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/httplink"
	"github.com/gyrohq/gyro/protocol"
)

// States of a Client, and of a Subscription (unsubscribed, subscribing, subscribed).
const (
	Disconnected = 0
	Connecting   = 1
	Connected    = 2
	Unsubscribed = 0
	Subscribing  = 1
	Subscribed   = 2
)

// TokenSource is implemented by the application. It returns a token for the connection if channel is empty, or for a
// channel. An empty token says that the user may not; after an error the client tries again.
type TokenSource interface {
	Token(channel string) (string, error)
}

// Options of a Client. A field that is 0 or empty has the default of package client.
type Options struct {
	// Token of the user, and TokenSource, which gives others.
	Token       string
	TokenSource TokenSource
	// Data for the server's application, with each connection.
	Data []byte
	// Name and Version of the program.
	Name, Version string
	// Protobuf in place of JSON.
	Protobuf bool
	// HTTPStream and SSE are the URLs of these transports, for networks that let no WebSocket through.
	HTTPStream, SSE string
	// Dictionary offers compression, for a Profile of the server.
	Dictionary bool
	Profile    string
	// TimeoutMillis of a command, and of an attempt to connect.
	TimeoutMillis int64
}

// NewOptions returns the defaults.
func NewOptions() *Options { return new(Options) }

// Listener hears of the connection. Codes and reasons stand in docs/sdk-spec.md; codes from 1000 on come from the
// server.
type Listener interface {
	OnConnecting(code int, reason string)
	OnConnected(clientID, transport string, data []byte)
	OnDisconnected(code int, reason string)
	// OnError tells of a failed attempt; another one follows. channel is empty for the connection, whose next attempt is
	// at NextAttemptMillis.
	OnError(channel string, code int, message string)
	OnMessage(data []byte)
	// The following methods tell of channels that the server has subscribed the client to. If recovered is false,
	// publications may be missing: load the state anew. OnServerSubscribed comes again if the listener was too slow for
	// some publications.
	OnServerSubscribed(channel string, recovered bool)
	OnServerUnsubscribed(channel string)
	OnServerPublication(p *Publication)
}

// Client keeps a connection.
type Client struct {
	c    *client.Client
	stop context.CancelFunc
	ctx  context.Context

	running sync.WaitGroup
}

// NewClient returns a client of a WebSocket endpoint, such as wss://example.com/connection/websocket. It connects with
// Connect. o may be nil.
func NewClient(endpoint string, o *Options, l Listener) (*Client, error) {
	if o == nil {
		o = new(Options)
	}
	if l == nil {
		return nil, errors.New("mobile: NewClient needs a listener")
	}
	over := client.WebSocket(endpoint)
	if o.HTTPStream != "" || o.SSE != "" {
		all := []client.Transport{over}
		if o.HTTPStream != "" {
			all = append(all, httplink.Stream(o.HTTPStream, nil))
		}
		if o.SSE != "" {
			all = append(all, httplink.SSE(o.SSE, nil))
		}
		over = httplink.Fallback(nil, all...)
	}
	co := client.Options{
		Token: o.Token, Data: o.Data, Name: o.Name, Version: o.Version, Dictionary: o.Dictionary, Profile: o.Profile,
		Timeout: time.Duration(o.TimeoutMillis) * time.Millisecond,
	}
	if o.Protobuf {
		co.Encoding = protocol.Protobuf
	}
	if source := o.TokenSource; source != nil {
		co.GetToken = func(context.Context) (string, error) { return source.Token("") }
	}
	c, err := client.NewOver(over, co)
	if err != nil {
		return nil, err
	}
	m := &Client{c: c}
	m.ctx, m.stop = context.WithCancel(context.Background())
	events := c.Events(m.ctx)
	m.running.Go(func() {
		for e := range events {
			tell(l, e)
		}
	})
	return m, nil
}

func tell(l Listener, e client.Event) {
	switch e := e.(type) {
	case client.ConnectingEvent:
		l.OnConnecting(int(e.Reason.Code), e.Reason.Text)
	case client.ConnectedEvent:
		l.OnConnected(e.Client, e.Transport, e.Data)
	case client.DisconnectedEvent:
		l.OnDisconnected(int(e.Reason.Code), e.Reason.Text)
	case client.ErrorEvent:
		l.OnError(e.Channel, int(e.Code), e.Message)
	case client.MessageEvent:
		l.OnMessage(e.Data)
	case client.SubscribedEvent:
		l.OnServerSubscribed(e.Channel, e.Recovered || !e.WasRecovering)
	case client.GapEvent:
		if e.Unread { // SubscribedEvent tells of the others
			l.OnServerSubscribed(e.Channel, false)
		}
	case client.UnsubscribedEvent:
		l.OnServerUnsubscribed(e.Channel)
	case client.PublicationEvent:
		l.OnServerPublication(publication(e.Publication))
	}
}

// Connect begins to connect. It does not wait.
func (c *Client) Connect() {
	over, cancel := context.WithCancel(c.ctx)
	cancel()
	_ = c.c.Connect(over) // the listener hears how it goes
}

// Disconnect ends the connection. Subscriptions, their listeners and positions are kept for the next Connect.
func (c *Client) Disconnect() { c.c.Disconnect() }

// Close ends the client, and waits until its listeners have heard of it. They must not call it.
func (c *Client) Close() {
	c.c.Close()
	c.running.Wait()
	c.stop()
}

// State is one of Disconnected, Connecting and Connected.
func (c *Client) State() int {
	state, _ := c.c.State()
	return int(state)
}

// NextAttemptMillis is when the client will try to connect again, in milliseconds since 1970. It is 0 if the client is
// connected or disconnected, or the attempt is under way.
func (c *Client) NextAttemptMillis() int64 {
	next := c.c.NextAttempt()
	if next.IsZero() {
		return 0
	}
	return next.UnixMilli()
}

// Reconnect makes the next attempt to connect now. It does nothing while no attempt waits.
func (c *Client) Reconnect() { c.c.Reconnect() }

// NetworkChanged: call it when the system has found a network, or another one, or has lost it.
func (c *Client) NetworkChanged(online bool) { c.c.NetworkChanged(online) }

// Woke: call it when the program comes back to the foreground.
func (c *Client) Woke() { c.c.Woke() }

// Publish publishes to a channel.
func (c *Client) Publish(channel string, data []byte) error {
	return c.c.Publish(c.ctx, channel, data)
}

// RPC calls a method of the application and returns its answer.
func (c *Client) RPC(method string, data []byte) ([]byte, error) { return c.c.RPC(c.ctx, method, data) }

// Send sends a message to the application. There is no answer.
func (c *Client) Send(data []byte) error { return c.c.Send(c.ctx, data) }

// ErrorCode is the code of an error: the server's from 100 on, the client's below; 0 if it has none.
func ErrorCode(err error) int {
	var e *client.Error
	if errors.As(err, &e) {
		return int(e.Code)
	}
	return 0
}

// ErrorTemporary reports whether the same may succeed later.
func ErrorTemporary(err error) bool {
	var e *client.Error
	return errors.As(err, &e) && (e.Temporary || e.Code < 100 && e.Code != client.ErrClosed.Code)
}

// Publication in a channel, or an entry of a map.
type Publication struct {
	Channel string
	Data    []byte
	Offset  int64
	// UserID and ClientID of the client that has published, or empty.
	UserID, ClientID string
	// Key of a map or of shared poll, whether its entry is gone, and the Version of its value, if any.
	Key     string
	Removed bool
	Version int64
	tags    map[string]string
}

// Tag is the value of a tag, or empty.
func (p *Publication) Tag(name string) string { return p.tags[name] }

func publication(p client.Publication) *Publication {
	m := &Publication{Channel: p.Channel, Data: p.Data, Offset: int64(p.Offset), Key: p.Key, Removed: p.Removed, Version: int64(p.Version), tags: p.Tags}
	if p.Info != nil {
		m.UserID, m.ClientID = p.Info.User, p.Info.Client
	}
	return m
}

// Publications are a list.
type Publications struct {
	list []client.Publication
	top  client.StreamPosition
}

// Len is how many there are.
func (p *Publications) Len() int { return len(p.list) }

// At is one of them, from 0 on; nil if there is none.
func (p *Publications) At(i int) *Publication {
	if i < 0 || i >= len(p.list) {
		return nil
	}
	return publication(p.list[i])
}

// TopOffset and TopEpoch are the end of the stream that they come from.
func (p *Publications) TopOffset() int64 { return int64(p.top.Offset) }

// TopEpoch goes with TopOffset.
func (p *Publications) TopEpoch() string { return p.top.Epoch }
