package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// simClient behaves as an SDK does, and judges what it gets.
type simClient struct {
	w          *world
	name       string
	enc        protocol.Encoding
	serverSide bool // its subscriptions are the server's
	oneWay     bool // and it gets bare pushes, sends no commands
	// farewell is the disconnect push, behind which nothing comes.
	farewell   *protocol.Disconnect
	flag       int64
	connection *connection // nil when disconnected
	connected  bool
	lastID     uint32
	waiting    map[uint32]request
	subs       []*simSub // by channel
}

type request struct {
	kind string
	sub  *simSub
}

// simSub is a subscription in an SDK.
type simSub struct {
	c        *simClient
	ch       *stream
	filtered bool
	delta    bool
	plain    bool // no delta this time: the server replaced the subscription
	wanted   bool
	state    simState
	// leaving counts unsubscribe commands without an answer: until then, or until a
	// subscribe is answered, publications are those of the subscription before.
	leaving int

	// The position that the SDK keeps, for recovery.
	recover bool
	offset  uint64
	epoch   string
	prev    []byte
	// The position up to which the client has got everything that it was to get.
	seen      uint64
	seenEpoch string
}

type simState uint8

const (
	simOff simState = iota
	simSubscribing
	simLive
)

// read is what an attach read, and what recovery has to make of it.
type read struct {
	top       channel.StreamPosition
	recovered bool
	pubs      []*channel.Publication
}

func (c *simClient) fail(format string, a ...any) {
	panic(violation(c.name + ": " + fmt.Sprintf(format, a...)))
}

// command sends commands in one frame.
func (c *simClient) command(cmds ...*protocol.Command) {
	var frame []byte
	for i, cmd := range cmds {
		var err error
		if i > 0 && c.enc == protocol.JSON {
			frame = append(frame, '\n')
		}
		if frame, err = codec.ForClient(c.enc).AppendCommand(frame, cmd); err != nil {
			panic(err)
		}
	}
	c.connection.env.s.Receive(frame)
}

// ask numbers a command.
func (c *simClient) ask(kind string, sub *simSub, cmd *protocol.Command) *protocol.Command {
	c.lastID++
	cmd.ID = c.lastID
	c.waiting[cmd.ID] = request{kind, sub}
	return cmd
}

// connect opens a connection, with its subscribes in the same frame as JavaScript
// does or later.
func (c *simClient) connect(pipelined bool) {
	c.w.trace("%s connects", c.name)
	c.connection = c.w.newConnection(c)
	req := &protocol.ConnectRequest{}
	if c.serverSide {
		req.Subs = make(map[string]*protocol.SubscribeRequest)
		for _, b := range c.subs {
			if b.recover {
				req.Subs[b.ch.name] = &protocol.SubscribeRequest{Recover: true, Offset: b.offset, Epoch: b.epoch}
			}
			if b.delta {
				if req.Subs[b.ch.name] == nil {
					req.Subs[b.ch.name] = &protocol.SubscribeRequest{}
				}
				req.Subs[b.ch.name].Delta = "fossil"
			}
			b.state, b.wanted, b.plain = simSubscribing, true, false
		}
	}
	if c.oneWay {
		c.connection.env.s.ReceiveConnect(req, nil)
		return
	}
	cmds := []*protocol.Command{c.ask("connect", nil, &protocol.Command{Connect: req})}
	if pipelined && !c.serverSide {
		for _, b := range c.subs {
			if b.wanted {
				cmds = append(cmds, b.subscribe())
			}
		}
	}
	c.command(cmds...)
}

func (b *simSub) subscribe() *protocol.Command {
	req := &protocol.SubscribeRequest{Channel: b.ch.name, Flag: b.c.flag}
	if b.recover {
		req.Recover, req.Offset, req.Epoch = true, b.offset, b.epoch
	}
	if b.delta {
		req.Delta = "fossil"
	}
	if b.filtered {
		req.Tf = &protocol.FilterNode{Key: "t", Cmp: "eq", Val: "x"}
	}
	b.state = simSubscribing
	return b.c.ask("subscribe", b, &protocol.Command{Subscribe: req})
}

func (b *simSub) unsubscribe() *protocol.Command {
	b.wanted, b.state = false, simOff
	b.leaving++
	return b.c.ask("unsubscribe", b, &protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: b.ch.name}})
}

// told compares how a connection was closed with the disconnect push. A slow client has
// none, as its queue is discarded, and who has vanished gets nothing.
func (c *simClient) told(d protocol.Disconnect) {
	silent := d.Code == protocol.DisconnectSlow.Code || d.Code == protocol.DisconnectConnectionClosed.Code
	if c.oneWay && !silent && (c.farewell == nil || *c.farewell != d) {
		c.fail("closed with %v, but the push said %v", d, c.farewell)
	}
}

// lost: the connection has ended.
func (c *simClient) lost() {
	c.connection.over = true
	c.connection, c.connected, c.farewell = nil, false, nil
	clear(c.waiting)
	for _, b := range c.subs {
		b.state, b.leaving = simOff, 0
	}
}

// options are what the server lets a subscription have.
func (b *simSub) options() channel.SubscribeOptions {
	o := channel.SubscribeOptions{
		Recoverable: true, Presence: true, EmitJoinLeave: true, AllowDelta: true,
		AllowTagsFilter: true, AllowCompaction: b.ch.index%2 == 0,
	}
	if b.ch.cache {
		o.RecoveryMode = channel.RecoverCache
	}
	return o
}

func (b *simSub) passes(tags map[string]string) bool { return !b.filtered || tags["t"] == "x" }

// judge says what a subscribe with this position must yield, from the definition
// of recovery: everything that was missed, or the news that it is lost. replaces
// is the epoch of the connection's subscription before, if there was one.
func (b *simSub) judge(it *effect.AttachItem, replaces string, limit int) read {
	s := b.ch
	asked := channel.StreamPosition{Offset: b.offset, Epoch: b.epoch}
	if it.Since != nil {
		// The server's own idea of the position, if it replaces a subscription: what the
		// one before was told may still be on its way to the client.
		asked.Offset = it.Since.Offset
		if b.c.serverSide && replaces != "" {
			asked.Epoch = replaces
		}
	}
	r := read{top: s.position()}
	if s.cache {
		if !it.Reverse {
			return r
		}
		same := asked.Offset > 0 && asked == s.position()
		newest := s.latest(1)
		stored := s.latest(-1)
		if limit > 0 {
			stored = s.latest(limit)
		}
		var match *channel.Publication
		for _, p := range stored { // newest first
			if b.passes(p.Tags) {
				match = p
				break
			}
		}
		switch {
		case match == nil:
			r.recovered = same
		case newest[0].Offset != s.top:
		case same:
			r.recovered = true
		default:
			r.recovered, r.pubs = true, []*channel.Publication{match}
		}
		return r
	}
	if it.Since == nil {
		return r
	}
	r.recovered = (asked.Epoch == "" || asked.Epoch == s.epoch) && s.complete(asked.Offset) &&
		(limit == 0 || s.top-asked.Offset <= uint64(limit))
	if r.recovered {
		for _, p := range s.truth[s.epoch][asked.Offset:] {
			if b.passes(p.Tags) {
				r.pubs = append(r.pubs, p)
			}
		}
	}
	return r
}

// within drops what is too much for the reply: that cannot be recovered. Payloads may be in strings of JSON.
func (r read) within(budget *int, quoted bool) read {
	sum := 0
	for _, p := range r.pubs {
		sum += 64 + len(p.Data)
		if quoted {
			sum += bytes.Count(p.Data, []byte(`"`)) + bytes.Count(p.Data, []byte(`\`))
		}
		for k, v := range p.Tags {
			sum += 8 + len(k) + len(v)
		}
		if i := p.Info; i != nil {
			sum += 64 + len(i.User) + len(i.Client) + len(i.ConnInfo) + len(i.ChanInfo)
		}
	}
	if sum > max(*budget, 0) {
		r.recovered, r.pubs = false, nil
		return r
	}
	*budget -= sum
	return r
}

// receive takes one message of the server.
func (c *simClient) receive(r *protocol.Reply) {
	if c.farewell != nil {
		c.fail("a message behind the disconnect push")
	}
	switch {
	case c.oneWay && *r.Push == protocol.Push{}: // a ping
	case c.oneWay && r.Push.Disconnect != nil:
		c.farewell = r.Push.Disconnect
	case c.oneWay && r.Push.Connect != nil:
		if c.connected {
			c.fail("connected twice")
		}
		c.answer(request{kind: "connect"}, &protocol.Reply{Connect: &protocol.ConnectResult{Subs: r.Push.Connect.Subs}})
	case r.Push != nil:
		if !c.connected {
			c.fail("push before the connect reply")
		}
		c.push(r.Push)
	case r.ID == 0:
		if c.w.calm || c.w.random.IntN(50) > 0 {
			c.command(&protocol.Command{}) // pong
		}
	default:
		q, ok := c.waiting[r.ID]
		if !ok {
			c.fail("answer %d to nothing", r.ID)
		}
		delete(c.waiting, r.ID)
		c.answer(q, r)
	}
}

func (c *simClient) answer(q request, r *protocol.Reply) {
	switch {
	case q.kind == "connect" && r.Error == nil:
		c.connected = true
		for _, b := range c.subs {
			if res := r.Connect.Subs[b.ch.name]; res != nil {
				b.subscribed(res)
			}
		}
	case q.kind == "subscribe" && r.Error != nil:
		if r.Error.Code == protocol.ErrorUnrecoverablePosition.Code {
			if got := c.connection.popRead(q.sub.ch); got.recovered {
				c.fail("%s: 112, but nothing was lost", q.sub.ch.name)
			}
			q.sub.recover, q.sub.offset, q.sub.epoch = false, 0, ""
		}
		q.sub.state = simOff
	case q.kind == "subscribe":
		q.sub.subscribed(r.Subscribe)
	case q.kind == "unsubscribe":
		q.sub.leaving--
	}
}

// subscribed is told the outcome of a subscribe.
func (b *simSub) subscribed(res *protocol.SubscribeResult) {
	got := b.c.connection.popRead(b.ch)
	stale := b.state != simSubscribing // unsubscribed in between: of no interest
	if !stale {
		b.state = simLive
	}
	if res.Recovered != got.recovered {
		b.c.fail("%s: recovered %v, want %v", b.ch.name, res.Recovered, got.recovered)
	}
	if len(res.Publications) != len(got.pubs) {
		b.c.fail("%s: %d publications recovered, want %d", b.ch.name, len(res.Publications), len(got.pubs))
	}
	if res.Epoch != got.top.Epoch || !res.Recovered && res.Offset != got.top.Offset {
		b.c.fail("%s: position %d %s, want %v", b.ch.name, res.Offset, res.Epoch, got.top)
	}
	if stale {
		return
	}
	if !b.delta {
		b.prev = nil
	}
	b.recover, b.offset, b.epoch = true, res.Offset, res.Epoch
	for i, p := range res.Publications {
		if data := b.payload(p); !bytes.Equal(data, b.expect(got.pubs[i].Data)) || p.Offset != got.pubs[i].Offset {
			b.c.fail("%s: recovered %d %q, want %d %q", b.ch.name, p.Offset, data, got.pubs[i].Offset, got.pubs[i].Data)
		}
		b.offset = p.Offset
	}
	// From here on everything behind the top as it was read has to come.
	b.seen, b.seenEpoch = got.top.Offset, got.top.Epoch
}

// patched tells whether the subscription has delta compression.
func (b *simSub) patched() bool { return b.delta && !b.plain }

// expect is a payload as this subscription shows it.
func (b *simSub) expect(data []byte) []byte {
	if b.c.enc == protocol.JSON && !b.patched() {
		return asSeen(data)
	}
	return data
}

// payload undoes what delta negotiation did to the data.
func (b *simSub) payload(p *protocol.Publication) []byte {
	data := p.Data
	if !b.patched() {
		if p.Delta {
			b.c.fail("%s: a patch that nobody asked for", b.ch.name)
		}
		return data
	}
	if b.c.enc == protocol.JSON {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			b.c.fail("%s: delta data is no string: %v", b.ch.name, err)
		}
		data = []byte(s)
	}
	if p.Delta {
		patched, err := fossiltest.Apply(b.prev, data)
		if err != nil {
			b.c.fail("%s: patch %q does not apply to %q: %v", b.ch.name, data, b.prev, err)
		}
		data = patched
		b.c.w.patches++
	}
	b.prev = data
	return data
}

func (c *simClient) push(p *protocol.Push) {
	var b *simSub
	for _, sub := range c.subs {
		if p.Channel == sub.ch.name || p.Channel == "" && p.ID == sub.ch.id {
			b = sub
		}
	}
	switch {
	case p.Pub != nil:
		b.publication(p.Pub)
	case p.Unsubscribe != nil:
		if p.Unsubscribe.Code == protocol.UnsubscribeInsufficientState.Code {
			c.w.blame(c)
		}
		if b.state != simLive {
			return // crossed a subscribe that is on its way
		}
		b.state = simOff
		if p.Unsubscribe.Code < 2500 || c.serverSide {
			b.wanted = false
		}
	case p.Subscribe != nil:
		got := c.connection.popRead(b.ch)
		if at := p.Subscribe.Offset; p.Subscribe.Epoch != got.top.Epoch || !got.recovered && at != got.top.Offset {
			c.fail("%s: subscribe push at %d, want %v", b.ch.name, at, got.top)
		} else if got.recovered && len(got.pubs) > 0 && at >= got.pubs[0].Offset {
			c.fail("%s: subscribe push at %d, and publication %d follows", b.ch.name, at, got.pubs[0].Offset)
		}
		if b.state != simLive || !got.recovered {
			b.seen, b.seenEpoch = got.top.Offset, got.top.Epoch
		}
		b.plain = true
		b.state, b.recover, b.offset, b.epoch = simLive, true, p.Subscribe.Offset, got.top.Epoch
	}
}

// publication must be the next one that the subscription lets through.
func (b *simSub) publication(p *protocol.Publication) {
	if b.state == simOff || b.state == simSubscribing && b.leaving > 0 {
		return
	}
	if b.state != simLive {
		b.c.fail("%s: publication %d before the subscribe reply", b.ch.name, p.Offset)
	}
	b.c.w.delivered++
	data := b.payload(p)
	if !b.passes(p.Tags) {
		b.c.fail("%s: publication %d does not pass the filter", b.ch.name, p.Offset)
	}
	if p.Offset == 0 {
		if !b.ch.unstored[string(data)] && !b.ch.wasUnstored(data) {
			b.c.fail("%s: %q was never published", b.ch.name, data)
		}
		return
	}
	all := b.ch.truth[b.seenEpoch]
	if p.Offset <= b.seen || p.Offset > uint64(len(all)) {
		b.c.fail("%s: publication %d after %d of %d", b.ch.name, p.Offset, b.seen, len(all))
	}
	if p.Delta && p.Offset > b.seen+1 {
		b.c.w.bridges++
	}
	for _, skipped := range all[b.seen : p.Offset-1] {
		if b.passes(skipped.Tags) {
			b.c.fail("%s: publication %d is missing before %d", b.ch.name, skipped.Offset, p.Offset)
		}
	}
	if want := b.expect(all[p.Offset-1].Data); !bytes.Equal(data, want) {
		b.c.fail("%s: publication %d is %q, want %q", b.ch.name, p.Offset, data, want)
	}
	b.seen, b.offset = p.Offset, p.Offset
}

// wasUnstored compares without line breaks, which plain JSON does not keep.
func (s *stream) wasUnstored(data []byte) bool {
	for d := range s.unstored {
		if bytes.Equal(asSeen([]byte(d)), data) {
			return true
		}
	}
	return false
}

// missing says what has not arrived once everything had time to arrive; empty if
// nothing is.
func (b *simSub) missing() string {
	if b.c.serverSide && b.state == simOff && !b.wanted {
		return "" // removed by the server
	}
	if b.state != simLive {
		return "not subscribed"
	}
	if b.seenEpoch != b.ch.epoch {
		return "in epoch " + b.seenEpoch + " of " + b.ch.epoch
	}
	for _, p := range b.ch.truth[b.ch.epoch][b.seen:] {
		if b.passes(p.Tags) {
			return fmt.Sprintf("publication %d never came", p.Offset)
		}
	}
	return ""
}
