// Package client is a client of the protocol for commands of a terminal: it subscribes to channels, comes back after a
// lost connection, recovers what it missed, and sends commands. Channels may be streams, maps, or shared polls with the keys
// to track. It speaks JSON over WebSocket.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/wire"
)

// Delays before the client connects again: they double from the first to the last.
const (
	firstDelay = 200 * time.Millisecond
	lastDelay  = 20 * time.Second
	// graceOfPing is how much later than announced a ping may come.
	graceOfPing = 10 * time.Second
)

// Config of a client.
type Config struct {
	Dialer *wire.Dialer
	Name   string // told to the server
	// Token returns the token of a connection; nil: none. SubscribeToken returns that of a subscription;
	// nil or an empty text: none. Each connection and each subscription asks again.
	Token          func() (string, error)
	SubscribeToken func(channel string) (string, error)
	// Channels are subscribed to. JoinLeave asks for their join and leave events.
	Channels  []Channel
	JoinLeave bool
	// Delta asks for differences instead of whole payloads, where the server allows it. Events have whole payloads all the same.
	Delta bool
	// SignKeys returns the signature by which the client may track keys of a shared poll channel. Each connection, and each
	// signature that expires, asks again.
	SignKeys func(channel string, keys []string) (string, error)
	// Handle hears of everything that happens, one event after the other. An error ends the client.
	Handle func(Event) error
}

// Channel is a channel to subscribe to.
type Channel struct {
	Name string
	// Since, unless nil, is the position after which the subscription begins.
	Since *protocol.StreamPosition
	Type  Type
	// Keys of a SharedPoll, which are tracked.
	Keys []string
}

// Type is what a channel is.
type Type int32

// Types of channels, as the protocol numbers them.
const (
	Stream Type = iota
	Map
	MapClients // of clients that are present
	MapUsers   // of users who are present
	SharedPoll
)

func (t Type) isMap() bool { return t == Map || t == MapClients || t == MapUsers }

// EventKind tells what an Event is about.
type EventKind string

// Kinds of events.
const (
	Connected    EventKind = "connected"
	Disconnected EventKind = "disconnected" // the client connects again
	Subscribed   EventKind = "subscribed"
	Unsubscribed EventKind = "unsubscribed"
	Published    EventKind = "publication"
	Joined       EventKind = "join"
	Left         EventKind = "leave"
	Sent         EventKind = "message" // to this connection alone
	// Of maps: Entry is one of the state, before changes come as Published. Subscribed follows when the client has caught up.
	// Reset says that all entries follow anew, so that those from before are forgotten.
	Entry EventKind = "entry"
	Reset EventKind = "reset"
)

// Event is what happened.
type Event struct {
	Kind    EventKind
	Channel string
	// Publication of Published and Entry; Info of Joined and Left; Data of Sent.
	Publication *protocol.Publication
	Info        *protocol.ClientInfo
	Data        []byte
	// Result of Subscribed, without the publications, which are events of their own.
	Result *protocol.SubscribeResult
	// Err of Disconnected and Unsubscribed; Delay until the client tries again.
	Err   error
	Delay time.Duration
}

// Client is a client. Run drives it; Do may be called from any goroutine.
type Client struct {
	cfg  Config
	subs map[string]*subscription // belongs to Run

	mu      sync.Mutex
	conn    *wire.Conn    // nil while it is not connected
	ready   chan struct{} // closed while it is connected
	ended   chan struct{} // closed when Run has returned
	lastID  uint32
	waiting map[uint32]chan *protocol.Reply
}

// subscription is a channel with the position that the client has reached.
type subscription struct {
	Channel
	recoverable bool
	at          protocol.StreamPosition
	state       mapState
	poll        pollState
	whole       whole
}

// New returns a client. It connects when Run is called.
func New(cfg Config) *Client {
	c := &Client{
		cfg: cfg, subs: make(map[string]*subscription), ready: make(chan struct{}), ended: make(chan struct{}), waiting: make(map[uint32]chan *protocol.Reply),
	}
	for _, ch := range cfg.Channels {
		s := &subscription{Channel: ch}
		if ch.Since != nil {
			s.recoverable, s.at = true, *ch.Since
		}
		c.subs[ch.Name] = s
	}
	return c
}

// fatal is an error after which connecting again is of no use.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// Run keeps the client connected until ctx ends, the server refuses it for good, or Handle fails. The first connection
// has to succeed. It returns the reason, which is the cause of ctx if that has ended.
func (c *Client) Run(ctx context.Context) error {
	defer close(c.ended)
	delay, connected := firstDelay, false
	for {
		begun := time.Now()
		err := c.session(ctx, func() { connected = true })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var last fatal
		switch {
		case errors.As(err, &last):
			return last.error
		case !connected:
			return err
		}
		if time.Since(begun) > lastDelay {
			delay = firstDelay
		}
		wait := delay/2 + rand.N(delay/2) // so that many clients do not come at once
		if err := c.cfg.Handle(Event{Kind: Disconnected, Err: err, Delay: wait}); err != nil {
			return err
		}
		delay = min(2*delay, lastDelay)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// session is one connection from the dial to its end. It calls up when the server has accepted it.
func (c *Client) session(ctx context.Context, up func()) error {
	first, ids, err := c.greeting()
	if err != nil {
		return fatal{err}
	}
	conn, err := c.cfg.Dialer.Dial(ctx, first...)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, conn.Cut)()
	defer conn.Cut()
	s := &session{Client: c, conn: conn, up: up, subscribing: ids, tracking: make(map[uint32]string), codec: codec.ForClient(protocol.JSON)}
	defer c.down()
	err = conn.Serve(s.receive)
	var closed *wire.CloseError
	if errors.As(err, &closed) {
		d := protocol.Disconnect{Code: uint32(closed.Code), Reason: closed.Reason}
		if err = d; d.Terminal() {
			return fatal{err}
		}
	}
	return err
}

// greeting returns the first commands, with the channels of the subscribe commands by their IDs.
func (c *Client) greeting() ([]*protocol.Command, map[uint32]string, error) {
	req := &protocol.ConnectRequest{Name: c.cfg.Name}
	if c.cfg.Token != nil {
		token, err := c.cfg.Token()
		if err != nil {
			return nil, nil, err
		}
		req.Token = token
	}
	commands, ids := []*protocol.Command{{ID: c.nextID(), Connect: req}}, make(map[uint32]string)
	for _, ch := range c.cfg.Channels {
		s := c.subs[ch.Name]
		if s == nil { // the server has ended it
			continue
		}
		cmd, err := c.subscribe(s)
		if err != nil {
			return nil, nil, err
		}
		commands, ids[cmd.ID] = append(commands, cmd), s.Name
	}
	return commands, ids, nil
}

func (c *Client) subscribe(s *subscription) (*protocol.Command, error) {
	req := &protocol.SubscribeRequest{Channel: s.Name, Type: int32(s.Type), JoinLeave: c.cfg.JoinLeave}
	if c.cfg.Delta {
		req.Delta = fossil
	}
	req.Recoverable = s.Type == Stream
	if s.Type.isMap() {
		s.state.begin(req, s.recoverable)
	}
	if s.recoverable {
		req.Recover, req.Offset, req.Epoch = true, s.at.Offset, s.at.Epoch
	}
	if c.cfg.SubscribeToken != nil {
		token, err := c.cfg.SubscribeToken(s.Name)
		if err != nil {
			return nil, err
		}
		req.Token = token
	}
	return &protocol.Command{ID: c.nextID(), Subscribe: req}, nil
}

func (c *Client) nextID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return c.lastID
}

// online makes a connection available to Do.
func (c *Client) online(conn *wire.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	close(c.ready)
}

// down ends the calls that wait for replies.
func (c *Client) down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn, c.ready = nil, make(chan struct{})
	}
	for id, reply := range c.waiting {
		close(reply)
		delete(c.waiting, id)
	}
}

// errLost is the error of commands whose connection is gone before the reply.
var errLost = errors.New("the connection was lost before the reply came: whether the server has done it is not known")

// Do sends a command, once the client is connected, and returns the reply. An error of the server is a *protocol.Error.
func (c *Client) Do(ctx context.Context, cmd *protocol.Command) (*protocol.Reply, error) {
	conn, reply, err := c.expecting(ctx, cmd)
	if err != nil {
		return nil, err
	}
	if err := conn.Send(cmd); err != nil {
		return nil, err
	}
	select {
	case r, ok := <-reply:
		switch {
		case !ok:
			return nil, errLost
		case r.Error != nil:
			return nil, r.Error
		}
		return r, nil
	case <-c.ended:
		return nil, errLost
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// expecting waits for the connection and gives the command its ID. The channel gets the reply, or is closed when
// the connection is lost.
func (c *Client) expecting(ctx context.Context, cmd *protocol.Command) (*wire.Conn, <-chan *protocol.Reply, error) {
	reply := make(chan *protocol.Reply, 1)
	for {
		c.mu.Lock()
		conn, ready := c.conn, c.ready
		if conn != nil {
			c.lastID++
			cmd.ID = c.lastID
			c.waiting[cmd.ID] = reply
		}
		c.mu.Unlock()
		if conn != nil {
			return conn, reply, nil
		}
		select {
		case <-ready:
		case <-c.ended:
			return nil, nil, errors.New("the client has ended")
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// answered hands a reply to the call that waits for it.
func (c *Client) answered(r *protocol.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reply := c.waiting[r.ID]; reply != nil {
		reply <- r
		delete(c.waiting, r.ID)
	}
}

func refused(what string, e *protocol.Error) error {
	err := fmt.Errorf("%s: error %w", what, e)
	if e.Temporary {
		return err
	}
	return fatal{err}
}
