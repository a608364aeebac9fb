package client

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/gyrohq/gyro/client/internal/backoff"
	"github.com/gyrohq/gyro/client/internal/dictionary"
	"github.com/gyrohq/gyro/client/internal/eventqueue"
	"github.com/gyrohq/gyro/client/internal/ordered"
	"github.com/gyrohq/gyro/internal/random"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// Client is a client. New makes one.
type Client struct {
	options Options
	dialer  Dialer
	codec   codec.ClientCodec
	random  func() float64   // in [0, 1)
	now     func() time.Time // goes on while the machine sleeps

	mu      sync.Mutex
	state   State
	reason  Reason        // of the state
	since   time.Time     // when the state was entered
	next    time.Time     // when the attempt is made that waits for its time; zero: none does
	failure error         // of the last attempt to connect, or of the connection that was lost
	changed chan struct{} // closed when the state changes; nil without waiters
	closed  bool
	hurry   bool      // no time passes until the next attempt
	trying  bool      // the transport is in use, and the server has sent nothing yet
	failed  int       // attempts that count for the next wait
	tries   *attempts // of the last Connect
	link    *link     // the connection; nil for none
	token   string
	lastID  uint32
	books   dictionary.Memory
	calls   []*call // that wait for the connection
	subs    ordered.Map[string, *Subscription]
	server  []*stream // subscriptions that the server has made, oldest first
	queues  eventqueue.Set[Event]
	crowd   eventqueue.Crowd[Event] // of the iterators of client and subscriptions
	running sync.WaitGroup
}

// New returns a client of an endpoint, a URL such as wss://example.com/connection/websocket. It connects when Connect is
// called. An error names the fault in the endpoint or the options.
func New(endpoint string, o Options) (*Client, error) { return NewOver(WebSocket(endpoint), o) }

// NewOver returns a client over a transport, such as one of package httplink. It connects when Connect is called. An
// error names the fault in the transport's address or the options.
func NewOver(t Transport, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := t(&o)
	if err != nil {
		return nil, err
	}
	return newClient(d, o), nil
}

func newClient(d Dialer, o Options) *Client {
	return &Client{
		dialer: d, options: o, codec: codec.ForClient(o.Encoding), token: o.Token, reason: DisconnectCalled,
		random: random.Stream(), now: func() time.Time { return time.Now().Round(0) },
	}
}

// Connect begins to connect, and waits as Ready does. The client goes on to try when ctx has ended.
func (c *Client) Connect(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.begin()
	c.mu.Unlock()
	return c.Ready(ctx)
}

// begin: the lock is held.
func (c *Client) begin() {
	if c.state != Disconnected {
		return
	}
	tries := &attempts{kick: make(chan struct{}, 1)}
	c.tries = tries
	c.failed, c.hurry, c.failure = 0, false, nil
	c.enter(Connecting, ConnectCalled)
	c.queues.Push(ConnectingEvent{Reason: ConnectCalled})
	c.running.Go(func() { c.run(tries) })
}

// Ready waits until the client is connected. If ctx ends first, the error is its cause, with the error of the last
// attempt. Otherwise it is ErrDisconnected with a Reason: the server, GetToken or Disconnect has ended the attempts.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.mu.Lock()
		switch c.state {
		case Connected:
			c.mu.Unlock()
			return nil
		case Disconnected:
			defer c.mu.Unlock()
			return fmt.Errorf("client: %w", c.disconnected())
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			return late(ctx, "connect", c.failure)
		}
	}
}

// late is the error of a wait that ctx has ended, with the failure of the last attempt.
func late(ctx context.Context, to string, failure error) error {
	if failure == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("client: %w; the last attempt to %s: %w", context.Cause(ctx), to, failure)
}

// disconnected is the error of calls and waits. The lock is held.
func (c *Client) disconnected() error { return fmt.Errorf("%w: %w", ErrDisconnected, c.reason) }

// enter changes the state of the client. The lock is held, as in the functions that follow.
func (c *Client) enter(s State, r Reason) {
	c.state, c.reason, c.since = s, r, c.now()
	if s == Connected {
		c.failure = nil
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// State of the client, and why it is in it.
func (c *Client) State() (State, Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.reason
}

// NextAttempt is when the client will try to connect again. It is zero if the client is connected or disconnected, or
// the attempt is under way.
func (c *Client) NextAttempt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// Reconnect makes the next attempt to connect now. If it fails, the time until the one after it is as long as it would
// have been. Reconnect does nothing while no attempt waits; Connect connects a disconnected client.
func (c *Client) Reconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.next.IsZero() {
		wake(c.tries.kick)
	}
}

// Disconnect ends the connection, and the iterators and waits of subscriptions, with ErrDisconnected. Subscriptions and
// positions stay for the next Connect.
func (c *Client) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(DisconnectCalled)
}

func (c *Client) leave(r Reason) {
	if c.state != Disconnected {
		c.gone(ending{reason: r, last: true, politely: true})
	}
}

// Close ends the client, its subscriptions and its iterators, and waits for its goroutines, but not for functions of
// Options.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.leave(DisconnectCalled)
	for _, s := range c.subs.All() {
		s.leave(ClientClosed)
		s.end()
	}
	c.subs = ordered.Map[string, *Subscription]{}
	c.queues.End(true)
	c.mu.Unlock()
	c.running.Wait()
}

// Events returns the events from this call on, in their order: of the connection, of channels that the server has
// subscribed the client to, and of the subscriptions in also. Range over it once. It ends when ctx ends or when the
// client is closed; the caller must end ctx. After a DisconnectedEvent it goes on with the next Connect. Events wait in
// the iterator, see Options.Buffer.
func (c *Client) Events(ctx context.Context, also ...*Subscription) iter.Seq[Event] {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, life := []*eventqueue.Set[Event]{&c.queues}, eventqueue.Source
	for _, s := range also {
		from, life = append(from, s.queues), eventqueue.Sources
	}
	_, events := c.watch(ctx, life, "", c.closed, from...)
	return events
}

// watch adds an iterator to queues. channel is the subscription's, if all events are of one.
func (c *Client) watch(ctx context.Context, life eventqueue.Life, channel string, ended bool, to ...*eventqueue.Set[Event]) (*eventqueue.Queue[Event], iter.Seq[Event]) {
	q := eventqueue.New(channel, c.options.Buffer, life, &c.crowd, func(left []Event, e Event) []Event { return c.leftOut(left, e, channel) })
	if ended {
		q.End()
		return q, q.Each(func() {})
	}
	for _, one := range to {
		one.Add(q)
	}
	drop := func() {
		q.End()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, one := range to {
			one.Remove(q)
		}
	}
	stop := context.AfterFunc(ctx, drop) // the program may never range over it
	return q, q.Each(func() {
		stop()
		drop()
	})
}

// attempts are all attempts to connect from Connect on until the client is disconnected. The client's lock protects
// them. A context for all of them would take 0.5 kB from each connection.
type attempts struct {
	kick   chan struct{}      // has an element to end the wait for the next one
	cancel context.CancelFunc // ends the one that is under way; nil: none is
	over   bool
}

func (t *attempts) stop() {
	t.over = true
	wake(t.kick)
	if t.cancel != nil {
		t.cancel()
	}
}

func (c *Client) run(t *attempts) {
	for {
		c.attempt(t)
		c.mu.Lock()
		over, wait := t.over, time.Duration(0)
		if !c.next.IsZero() {
			wait = c.next.Sub(c.now())
		}
		c.mu.Unlock()
		if over {
			return
		}
		next := time.NewTimer(wait)
		select {
		case <-next.C:
		case <-t.kick:
			next.Stop()
		}
	}
}

// lasting is how long a connection, or a subscription, lives if it is no failed attempt.
const lasting = 5 * time.Second

// pause is the time until the next attempt, which it counts.
func (c *Client) pause(failed *int) time.Duration {
	return backoff.Pause(c.options.MinDelay, c.options.MaxDelay, failed, c.random)
}

func (c *Client) schedule() {
	c.next = time.Time{}
	if !c.hurry {
		c.next = c.now().Add(c.pause(&c.failed))
	}
	c.hurry = false
}

// NetworkChanged tells the client that the system has found a network, or another one, or has lost it. It saves waiting
// for pings, or for the next attempt.
func (c *Client) NetworkChanged(online bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !online && c.state == Connected:
		c.gone(ending{reason: TransportClosed})
	case !online:
	case c.state == Connecting && c.link == nil:
		wake(c.tries.kick)
	default:
		c.check()
	}
}

// Woke tells the client that the machine has slept, or the program was stopped.
func (c *Client) Woke() { c.NetworkChanged(true) }

func (c *Client) check() {
	l := c.link
	if l == nil || !l.connected || l.paused != nil {
		return
	}
	if l.silence > 0 && c.now().Sub(l.heard) >= l.silence {
		c.hurry = true
		c.gone(ending{reason: NoPing})
		return
	}
	l.probe()
}

func (c *Client) nextID() uint32 {
	c.lastID++
	if c.lastID == 0 {
		c.lastID = 1
	}
	return c.lastID
}

// Subscription returns the subscription to a channel, or nil.
func (c *Client) Subscription(channel string) *Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.subscription(channel)
}

func (c *Client) subscription(channel string) *Subscription { return c.subs.Get(channel) }

func (c *Client) request(token string, data []byte) *protocol.ConnectRequest {
	return &protocol.ConnectRequest{
		Token: token, Data: data, Name: c.options.Name, Version: c.options.Version, Headers: c.options.Headers,
		Subs: c.positions(),
	}
}
