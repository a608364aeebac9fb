// Package client is what a connection is inside of the node: a session on its loop, the
// effects of it at the application and the engines, and a place among the other clients.
package client

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/ingress"
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/life"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
)

// Client is one connection. Its methods may be called from any goroutine,
// unless they say otherwise.
type Client struct {
	loop    *Loop
	session session.Session
	timer   loop.Timer
	life    life.Life
	// ctx is what handlers get, if the application gave the client values or meta.
	ctx atomic.Pointer[life.Context]
	// request opened the connection; nil once the client has connected.
	request *request
	lane    lane.Lane
	// userSlot is the place in the loop's list of the user's clients.
	userSlot int32

	id         uuid.UUID
	remoteAddr string

	// prev and next link the loop's connections.
	prev, next *Client
}

// request is the HTTP request that opened a connection.
type request struct {
	ctx    context.Context
	header func() http.Header
}

// ID of the client: a random UUID.
func (c *Client) ID() string { return c.id.String() }

// RemoteAddr of the peer.
func (c *Client) RemoteAddr() string { return c.remoteAddr }

// Session of the client. It belongs to the loop, but for what is constant: User and Via.
func (c *Client) Session() *session.Session { return &c.session }

// Header makes the header of the HTTP request. It is nil once the client has connected.
func (c *Client) Header() func() http.Header {
	if c.request == nil {
		return nil
	}
	return c.request.header
}

// Context ends with the connection; it has the values that the application gave it.
func (c *Client) Context() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx
	}
	return &c.life
}

// Meta is what the application gave the client last; nil if there is none.
func (c *Client) Meta() []byte {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx.Meta
	}
	return nil
}

// work is the context of handlers, and of what they lead to.
func (c *Client) work() context.Context {
	if ctx := c.ctx.Load(); ctx != nil {
		return ctx.Work()
	}
	return c.loop.clients.handling
}

// Post has f called on the client's loop.
func (c *Client) Post(f func()) { c.loop.Post(&ingress.Call{Session: &c.session, F: f}) }

// Call has f called on the client's loop and waits for it. It is false if the loop or ctx
// ended before.
func (c *Client) Call(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	posted := c.loop.Post(loop.Func(func() {
		defer close(done)
		f()
	}))
	if !posted {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Subscribe makes a server-side subscription. It is called on the loop.
func (c *Client) Subscribe(ch string, o *channel.SubscribeOptions) {
	if err := c.session.Subscribe(ch, o); err != nil {
		c.loop.clients.Log.Warn("server-side subscription refused", "channel", ch, "client", c.ID(), "error", err)
	}
}
