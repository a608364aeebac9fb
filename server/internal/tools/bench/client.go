package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/bench/internal/account"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// Publish commands have the ids from firstPublishID on.
const (
	connectID uint32 = 1 + iota
	subscribeID
	firstPublishID
)

const graceOfPing = 10 * time.Second

// client is a subscriber of one channel, or a publisher. It outlives its connections. Its fields belong to the goroutine
// that runs session, except conn and the fields that stripe.mu guards.
type client struct {
	run     *run
	index   int
	channel int // index, or noChannel
	stripe  *stripe
	conn    atomic.Pointer[wire.Conn]

	// answered gets the replies to publish commands; nil for subscribers.
	answered func(*protocol.Reply)

	pong       bool
	ping       time.Duration // between pings; 0 for none
	subscribed bool          // in this session
	offset     uint64
	epoch      string

	ledger account.Ledger // guarded by stripe.mu
}

const noChannel = -1

type joined func(*protocol.SubscribeResult)

// session is one connection. It calls ready once, when the connection is ready for use. With again the client asks for
// the publications that it missed.
func (c *client) session(ctx context.Context, again bool, ready joined) error {
	token, err := c.token()
	if err != nil {
		return err
	}
	conn, err := c.run.dialer.Dial(ctx, c.greeting(token, again)...)
	if err != nil {
		return err
	}
	c.subscribed, c.pong, c.ping = false, false, 0
	c.conn.Store(conn)
	defer c.conn.Store(nil)
	defer conn.Cut()
	if ctx.Err() != nil { // the run may have ended before c.conn was stored
		return context.Cause(ctx)
	}
	return conn.Serve(func(message []byte) error { return c.receive(conn, message, ready) })
}

// token returns the client's token, which for a one-way client has the channel.
func (c *client) token() (string, error) {
	if c.channel != noChannel && c.run.dialer.Kind.OneWay {
		return c.run.target.token(c.index, c.run.channels[c.channel])
	}
	return c.run.target.token(c.index)
}

// greeting returns the first commands: connect and subscribe; for one-way clients connect, which asks for missed
// publications.
func (c *client) greeting(token string, again bool) []*protocol.Command {
	connect := &protocol.Command{ID: connectID, Connect: &protocol.ConnectRequest{Token: token, Name: "gyro-bench"}}
	if c.channel == noChannel {
		return []*protocol.Command{connect}
	}
	name := c.run.channels[c.channel]
	req := &protocol.SubscribeRequest{Recoverable: c.run.recoverable}
	if c.run.target.Keys > 0 {
		req.Type, req.Phase, req.Limit = mapType, phaseState, int32(c.run.target.Page)
	}
	if again {
		req.Recover, req.Offset, req.Epoch = true, c.offset, c.epoch
	}
	if c.run.dialer.Kind.OneWay {
		if again {
			connect.Connect.Subs = map[string]*protocol.SubscribeRequest{name: req}
		}
		return []*protocol.Command{connect}
	}
	req.Channel = name
	return []*protocol.Command{connect, {ID: subscribeID, Subscribe: req}}
}

func (c *client) receive(conn *wire.Conn, frame []byte, ready joined) error {
	for len(frame) > 0 {
		rest, other, err := c.publications(frame)
		if err != nil {
			return fmt.Errorf("the server sends what is not a reply: %w", err)
		}
		if frame = rest; other == nil {
			return nil
		}
		if err := c.reply(conn, other, ready); err != nil {
			return err
		}
	}
	return nil
}

// publications counts the deliveries at the start of a frame, up to the first other reply, which it returns with the
// rest of the frame.
func (c *client) publications(frame []byte) (rest []byte, other *protocol.Reply, err error) {
	now := c.run.elapsed()
	c.stripe.mu.Lock()
	defer c.stripe.mu.Unlock()
	for len(frame) > 0 {
		message := wire.FirstMessage(c.run.codec.Encoding(), frame)
		d := c.run.memo.Find(message)
		if d == nil {
			reply, err := c.decode(frame)
			if err != nil {
				return nil, nil, err
			}
			if reply.Push == nil || reply.Push.Pub == nil {
				return frame[len(message):], reply, nil
			}
			d = c.run.memo.Keep(message, newDelivery(reply.Push.Channel, reply.Push.Pub))
		}
		c.deliver(now, d)
		frame = frame[len(message):]
	}
	return nil, nil, nil
}

// decode turns a push to a one-way client into the reply that says the same.
func (c *client) decode(frame []byte) (*protocol.Reply, error) {
	if !c.run.dialer.Kind.OneWay {
		return c.decodeReply(frame)
	}
	reply := new(protocol.Reply)
	push := new(protocol.Push)
	if _, err := c.run.codec.DecodePush(frame, push); err != nil {
		return nil, err
	}
	switch {
	case push.Connect != nil:
		reply.ID = connectID
		reply.Connect = &protocol.ConnectResult{Subs: push.Connect.Subs, Ping: push.Connect.Ping}
	case *push != (protocol.Push{}): // else it is a ping
		reply.Push = push
	}
	return reply, nil
}

// decodeReply returns a reply that the caller does not change: pages of maps are shared.
func (c *client) decodeReply(frame []byte) (*protocol.Reply, error) {
	message := wire.FirstMessage(c.run.codec.Encoding(), frame)
	if page := c.run.pages.Find(message); page != nil {
		return page, nil
	}
	reply := new(protocol.Reply)
	_, err := c.run.codec.DecodeReply(frame, reply)
	if err == nil && reply.Subscribe != nil {
		c.run.pages.Keep(message, reply)
	}
	return reply, err
}

func (c *client) reply(conn *wire.Conn, r *protocol.Reply, ready joined) error {
	switch {
	case r.ID == 0 && r.Push == nil:
		return c.pinged(conn)
	case r.Push != nil && r.Push.Disconnect != nil:
		return *r.Push.Disconnect
	case r.Push != nil && r.Push.Unsubscribe != nil:
		return fmt.Errorf("unsubscribed from %q by the server: %d %s", r.Push.Channel, r.Push.Unsubscribe.Code, r.Push.Unsubscribe.Reason)
	case r.Push != nil: // joins, messages and the like are ignored
		return nil
	case r.ID >= firstPublishID:
		if c.answered != nil {
			c.answered(r)
		}
		return nil
	case r.ID == connectID:
		return c.connected(conn, r, ready)
	case r.ID == subscribeID:
		if r.Error != nil {
			return fmt.Errorf("subscribe to %q: error %w", c.run.channels[c.channel], r.Error)
		}
		if next := c.nextPage(r.Subscribe); next != nil {
			return conn.Send(next)
		}
		return c.inChannel(conn, r.Subscribe, ready)
	}
	return nil
}

func (c *client) pinged(conn *wire.Conn) error {
	if c.ping > 0 && c.subscribed {
		conn.Expect(c.ping + graceOfPing)
	}
	if !c.pong {
		return nil
	}
	return conn.Send(&protocol.Command{})
}

func (c *client) connected(conn *wire.Conn, r *protocol.Reply, ready joined) error {
	if r.Error != nil {
		return fmt.Errorf("connect: error %w", r.Error)
	}
	if r.Connect == nil {
		return errors.New("connect: the reply has no result")
	}
	c.pong, c.ping = r.Connect.Pong, time.Duration(r.Connect.Ping)*time.Second
	conn.Address(r.Connect.Node, r.Connect.Session)
	kind := c.run.dialer.Kind
	switch {
	case kind.Emulated() && r.Connect.Session == "":
		return errors.New("connect: the reply has no session, which commands by requests need")
	case c.channel == noChannel:
		c.live(conn)
		ready(nil)
	case kind.OneWay:
		name := c.run.channels[c.channel]
		res := r.Connect.Subs[name]
		if res == nil {
			return fmt.Errorf("connect: the server does not subscribe the client to %q, and clients of %s cannot: %w", name, kind.Name, errNotSubscribed)
		}
		return c.inChannel(conn, res, ready)
	}
	return nil
}

var errNotSubscribed = errors.New("they need a token that names the channel (--token-hmac-secret makes such tokens), or a server that subscribes them for another reason")

func (c *client) live(conn *wire.Conn) {
	c.subscribed = true
	var within time.Duration
	if c.ping > 0 {
		within = c.ping + graceOfPing
	}
	conn.Expect(within)
}

func (c *client) inChannel(conn *wire.Conn, res *protocol.SubscribeResult, ready joined) error {
	name := c.run.channels[c.channel]
	if res == nil {
		return fmt.Errorf("subscribe to %q: the reply has no result", name)
	}
	if c.run.recoverable && !res.Recoverable {
		return fmt.Errorf("subscribe to %q: %w", name, errNotRecoverable)
	}
	now := c.run.elapsed()
	c.stripe.mu.Lock()
	for _, pub := range res.Publications {
		c.deliver(now, newDelivery(name, pub))
	}
	c.stripe.mu.Unlock()
	c.offset, c.epoch = res.Offset, res.Epoch
	c.live(conn)
	ready(res)
	return nil
}

var errNotRecoverable = errors.New("the server does not recover this channel: choose one (--channel) of a namespace with history_size, history_ttl and force_recovery")

type delivery struct {
	channel string
	offset  uint64
	stamp   account.Stamp
	stamped bool
}

func newDelivery(channel string, pub *protocol.Publication) *delivery {
	d := &delivery{channel: channel, offset: pub.Offset}
	d.stamp, d.stamped = account.ParsePayload(pub.Data)
	return d
}

// The caller holds the stripe's lock.
func (c *client) deliver(now int64, d *delivery) {
	if c.channel == noChannel {
		return
	}
	c.offset = max(c.offset, d.offset)
	t := &c.stripe.tally
	if !d.stamped || d.stamp.Run != c.run.id {
		t.foreign++
		return
	}
	right := d.channel == c.run.channels[c.channel] && d.stamp.Channel == c.channel
	if !right || d.stamp.Sent > now || !c.run.issuedSeq(d.stamp) {
		t.corrupt++
		return
	}
	switch c.ledger.Observe(d.stamp.Publisher, d.stamp.Seq) {
	case account.Duplicate:
		t.duplicated++
		return
	case account.Late:
		t.reordered++
	}
	t.received++
	c.stripe.last = now
	c.stripe.latencies.record(time.Duration(now - d.stamp.Sent))
}

func (c *client) send(cmds []*protocol.Command) error {
	conn := c.conn.Load()
	if conn == nil {
		return errors.New("the connection is lost")
	}
	return conn.Send(cmds...)
}
