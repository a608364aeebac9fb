package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/fossil"
	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// mapClient follows maps as an SDK does, and judges what it gets.
type mapClient struct {
	w          *mapWorld
	name       string
	enc        protocol.Encoding
	flag       int64
	connection *mapConnection // nil when disconnected
	connected  bool
	lastID     uint32
	waiting    map[uint32]mapRequest
	subs       []*mapSub // by map
}

// mapRequest is a command without an answer.
type mapRequest struct {
	kind string
	sub  *mapSub
	try  int
}

// mapSub is a subscription to a map in an SDK.
type mapSub struct {
	c *mapClient
	s *simMap
	// What the client wants: a filter, delta compression, to recover by the phase LIVE, to keep what pages
	// of changes bring although it is not live.
	filtered, delta, direct, eager bool
	state                          simState
	leaving                        int // unsubscribe commands without an answer, as in simSub

	// has is what the client has got, up to a position of the stream: with known it can recover.
	has   map[string][]byte
	known bool
	at    channel.StreamPosition

	// A try to subscribe: its number, what was sent last, what waits to be sent, and what the client has got
	// by it.
	try   int
	sent  *protocol.SubscribeRequest
	next  *protocol.SubscribeRequest
	draft map[string][]byte

	// truth is what a live subscription has to show. floor and last are of an ephemeral map: the changes
	// up to floor are in the pages, and last is the one that came last.
	truth       *replica
	floor, last uint64
}

func (c *mapClient) fail(format string, a ...any) {
	panic(violation(c.name + ": " + fmt.Sprintf(format, a...)))
}

func (b *mapSub) fail(format string, a ...any) { b.c.fail(b.s.name+": "+format, a...) }

func (b *mapSub) trace(format string, a ...any) {
	if b.c.w.log != nil {
		b.c.w.trace("%s %s", b.c.connection.id+" "+b.s.name, fmt.Sprintf(format, a...))
	}
}

// command sends commands in one frame.
func (c *mapClient) command(cmds ...*protocol.Command) {
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
func (c *mapClient) ask(q mapRequest, cmd *protocol.Command) *protocol.Command {
	c.lastID++
	cmd.ID = c.lastID
	c.waiting[cmd.ID] = q
	return cmd
}

// connect opens a connection to one of the nodes, with subscribes in the same frame or later.
func (c *mapClient) connect(pipelined bool) {
	c.connection = c.w.newConnection(c)
	c.w.trace("%s connects to node %d", c.connection.id, c.connection.node.index)
	cmds := []*protocol.Command{c.ask(mapRequest{kind: "connect"}, &protocol.Command{Connect: &protocol.ConnectRequest{}})}
	for _, b := range c.subs {
		if pipelined {
			cmds = append(cmds, b.begin())
		}
	}
	c.command(cmds...)
}

// begin subscribes: from the client's position if it has one, else with the entries.
func (b *mapSub) begin() *protocol.Command {
	b.try++
	b.state, b.draft = simSubscribing, make(map[string][]byte)
	req := &protocol.SubscribeRequest{Phase: recovery.PhaseState}
	if b.known {
		maps.Copy(b.draft, b.has)
		if req.Phase = recovery.PhaseStream; b.direct {
			req.Phase = recovery.PhaseLive
		}
		req.Recover, req.Offset, req.Epoch = true, b.at.Offset, b.at.Epoch
	}
	return b.ask(req)
}

// ask completes a request of a try.
func (b *mapSub) ask(req *protocol.SubscribeRequest) *protocol.Command {
	req.Channel, req.Type, req.Flag, req.Limit = b.s.name, int32(channel.MapData), b.c.flag, int32(b.c.w.random.IntN(8))
	if b.delta {
		req.Delta = "fossil"
	}
	if b.filtered {
		req.Tf = clientFilter
	}
	b.sent, b.next = req, nil
	b.trace("asks for phase %d, cursor %q, %d %s, limit %d, recover %v", req.Phase, req.Cursor, req.Offset, req.Epoch, req.Limit, req.Recover)
	return b.c.ask(mapRequest{"subscribe", b, b.try}, &protocol.Command{Subscribe: req})
}

func (b *mapSub) unsubscribe() *protocol.Command {
	b.state, b.next = simOff, nil
	b.try++
	b.leaving++
	b.trace("unsubscribes")
	return b.c.ask(mapRequest{"unsubscribe", b, b.try}, &protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: b.s.name}})
}

// forget has the next try begin anew.
func (b *mapSub) forget() { b.known, b.has, b.at = false, nil, channel.StreamPosition{} }

// lost: the connection has ended.
func (c *mapClient) lost() {
	c.connection.over = true
	c.connection, c.connected = nil, false
	clear(c.waiting)
	for _, b := range c.subs {
		b.state, b.leaving, b.next = simOff, 0, nil
	}
}

// receive takes one message of the server.
func (c *mapClient) receive(r *protocol.Reply) {
	switch {
	case r.Push != nil:
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

func (c *mapClient) answer(q mapRequest, r *protocol.Reply) {
	switch {
	case q.kind == "connect":
		c.connected = r.Error == nil
	case q.kind == "unsubscribe":
		q.sub.leaving--
	case q.kind != "subscribe" || q.try != q.sub.try: // unsubscribed in between: of no interest
	case r.Error != nil:
		q.sub.refused(r.Error)
	default:
		q.sub.answered(r.Subscribe)
	}
}

// refused ends a try. 112 has to have a reason.
func (b *mapSub) refused(e *protocol.Error) {
	b.trace("gets error %d", e.Code)
	b.state = simOff
	if e.Code != protocol.ErrorUnrecoverablePosition.Code {
		return
	}
	if !b.c.connection.of(b.s).excused {
		b.fail("112, but nothing was lost")
	}
	b.c.w.restarts++
	b.forget()
}

// answered takes a page, or what makes the subscription live.
func (b *mapSub) answered(res *protocol.SubscribeResult) {
	w := b.c.w
	if res.Type != int32(channel.MapData) || b.state != simSubscribing {
		b.fail("answer of type %d in state %d", res.Type, b.state)
	}
	b.trace("gets phase %d, cursor %q, %d %s, %d entries, %d changes", res.Phase, res.Cursor, res.Offset, res.Epoch, len(res.State), len(res.Publications))
	switch res.Phase {
	case recovery.PhaseLive:
		b.live(res)
		return
	case recovery.PhaseState:
		b.entriesCame(res)
	case recovery.PhaseStream:
		b.changesCame(res)
	}
	if b.c.connection.of(b.s).near && res.Cursor == "" {
		b.fail("a page although the subscription could go live")
	}
	if w.pages++; w.calm || w.random.IntN(3) > 0 {
		b.c.command(b.ask(b.next))
	}
}

// entriesCame takes a page of entries and prepares the next request.
func (b *mapSub) entriesCame(res *protocol.SubscribeResult) {
	frozen := b.c.connection.of(b.s).frozen
	if b.sent.Phase != recovery.PhaseState || res.Offset != frozen.Offset || res.Epoch != frozen.Epoch {
		b.fail("a page of entries at %d %s to phase %d, want %v", res.Offset, res.Epoch, b.sent.Phase, frozen)
	}
	b.takeEntries(res.State, frozen)
	b.next = &protocol.SubscribeRequest{Phase: recovery.PhaseState, Cursor: res.Cursor, Offset: res.Offset, Epoch: res.Epoch}
	if res.Cursor == "" {
		b.next.Phase = recovery.PhaseStream
	}
}

// changesCame takes a page of changes likewise.
func (b *mapSub) changesCame(res *protocol.SubscribeResult) {
	from, to := channel.StreamPosition{Offset: b.sent.Offset, Epoch: b.sent.Epoch}, channel.StreamPosition{Offset: res.Offset, Epoch: res.Epoch}
	if b.sent.Phase != recovery.PhaseStream || to.Offset <= from.Offset {
		b.fail("a page of changes from %v to %v", from, to)
	}
	b.takeChanges(b.draft, res.Publications, from, to, false)
	b.next = &protocol.SubscribeRequest{Phase: recovery.PhaseStream, Offset: to.Offset, Epoch: to.Epoch, Recover: b.sent.Recover}
	if b.eager {
		b.known, b.at, b.has = true, to, maps.Clone(b.draft)
	}
}

// takeEntries takes entries of a map as it was at a position.
func (b *mapSub) takeEntries(pubs []*protocol.Publication, frozen channel.StreamPosition) {
	for _, p := range pubs {
		n := p.Offset
		if b.s.opts.Ephemeral {
			n = number(p.Tags)
		} else if n > frozen.Offset {
			b.fail("entry %s of %d on a page of %d", p.Key, n, frozen.Offset)
		}
		if b.draft[p.Key] != nil {
			b.fail("entry %s comes twice", p.Key)
		}
		b.take(b.draft, p, b.s.truth[frozen.Epoch][n-1], false)
	}
}

// takeChanges takes all changes between two positions.
func (b *mapSub) takeChanges(to map[string][]byte, pubs []*protocol.Publication, from, until channel.StreamPosition, patches bool) {
	truth, bases := b.s.truth[until.Epoch], make(map[string]bool)
	if from.Epoch != until.Epoch || from.Offset > until.Offset || until.Offset > uint64(len(truth)) {
		b.fail("changes from %v to %v", from, until)
	}
	for _, want := range truth[from.Offset:until.Offset] {
		if !b.passes(want.Tags) {
			continue
		}
		if len(pubs) == 0 {
			b.fail("change %d is missing", want.Offset)
		}
		b.take(to, pubs[0], want, patches && bases[want.Key])
		bases[want.Key], pubs = true, pubs[1:]
	}
	if len(pubs) > 0 {
		b.fail("change %d is too much", pubs[0].Offset)
	}
}

// take puts an entry or a change into a map. It may be a patch if patches are allowed.
func (b *mapSub) take(to map[string][]byte, p *protocol.Publication, want *channel.Publication, patches bool) {
	if p.Delta && !patches {
		b.fail("change %d is a patch of nothing", p.Offset)
	}
	data := b.payload(p, to[p.Key])
	if p.Key != want.Key || p.Offset != want.Offset || p.Removed != want.Removed || !maps.Equal(p.Tags, want.Tags) || !bytes.Equal(data, b.show(want.Data)) {
		b.fail("%s %d removed %v tags %v %q, want %s %d %v %v %q", p.Key, p.Offset, p.Removed, p.Tags, data,
			want.Key, want.Offset, want.Removed, want.Tags, want.Data)
	}
	if !b.passes(p.Tags) {
		b.fail("%s %d does not pass the filter", p.Key, p.Offset)
	}
	if to[p.Key] = data; p.Removed {
		delete(to, p.Key)
	}
}

// live is told that the subscription is live.
func (b *mapSub) live(res *protocol.SubscribeResult) {
	l, w, s := b.c.connection, b.c.w, b.s
	at, recovering := channel.StreamPosition{Offset: res.Offset, Epoch: res.Epoch}, b.sent.Recover
	if at != l.of(s).top || res.Recoverable == s.opts.Ephemeral || res.WasRecovering != recovering || res.Recovered != recovering || res.Delta != b.patched() {
		b.fail("live as %+v, want %v, recovering %v, delta %v", res, l.of(s).top, recovering, b.patched())
	}
	from := channel.StreamPosition{Offset: b.sent.Offset, Epoch: b.sent.Epoch}
	if b.sent.Phase == recovery.PhaseState {
		if from = l.of(s).frozen; !l.of(s).near {
			b.fail("live behind a page of entries, but too much has changed since %v", from)
		}
	}
	b.takeEntries(res.State, from)
	b.takeChanges(b.draft, res.Publications, from, at, true)
	b.state, b.has, b.at, b.known = simLive, b.draft, at, !s.opts.Ephemeral
	b.truth = s.replica(at.Epoch, b.passes)
	b.truth.advance(at.Offset)
	b.floor, b.last = l.of(s).floor, 0
	if w.lives++; recovering {
		w.recoveries++
	}
	switch {
	case s.opts.Ephemeral:
		w.ephemeral++
	case l.of(s).excused:
		b.fail("live from %v, where it cannot be", from)
	default:
		b.verify()
	}
}

// verify compares what the client has with the truth.
func (b *mapSub) verify() {
	if problem := b.truth.differs(b.has, b.show); problem != "" {
		b.fail("at %d: %s", b.truth.offset, problem)
	}
}

func (c *mapClient) push(p *protocol.Push) {
	if !c.connected {
		c.fail("push before the connect reply")
	}
	for _, b := range c.subs {
		switch {
		case p.Channel != b.s.name && (p.Channel != "" || p.ID != b.s.id):
		case p.Pub != nil:
			b.changed(p.Pub)
		case p.Unsubscribe != nil:
			b.unsubscribed(p.Unsubscribe)
		}
	}
}

// unsubscribed is told that the server ended the subscription. It may have crossed a subscribe.
func (b *mapSub) unsubscribed(u *protocol.Unsubscribe) {
	b.trace("is unsubscribed: %d", u.Code)
	if u.Code == protocol.UnsubscribeInsufficientState.Code {
		b.c.w.blame(b.c)
		b.c.w.told++
	}
	if b.state == simLive {
		b.state = simOff
	}
}

// changed takes a change: it must be the next one that the subscription lets through.
func (b *mapSub) changed(p *protocol.Publication) {
	if b.state == simOff || b.state == simSubscribing && b.leaving > 0 {
		return
	}
	if b.state != simLive {
		b.fail("change %d before the reply", p.Offset)
	}
	b.c.w.delivered++
	n, seen, all := p.Offset, b.truth.offset, b.s.truth[b.at.Epoch]
	if b.s.opts.Ephemeral {
		n, seen = number(p.Tags), b.last
	}
	if n <= seen || n > uint64(len(all)) {
		b.fail("change %d after %d of %d", n, seen, len(all))
	}
	for i := max(seen, b.floor) + 1; i < n; i++ {
		if change := all[i-1]; change.Key != "" && b.passes(change.Tags) && !b.way().excuses(i, n, b.c.connection.of(b.s).live) {
			b.fail("change %d is missing before %d", i, n)
		}
	}
	b.compact(p, all[n-1])
	b.take(b.has, p, all[n-1], true)
	if b.last = n; !b.s.opts.Ephemeral {
		b.truth.advance(n)
		b.at.Offset = n
		b.verify()
	}
}

// compact judges a change that is sent in full: a patch of what the client has would not be smaller.
func (b *mapSub) compact(p *protocol.Publication, want *channel.Publication) {
	if b.patched() && !p.Delta && b.s.bases[want] && b.passesAll() && len(fossil.Append(nil, b.has[p.Key], want.Data)) < len(want.Data) {
		b.fail("change %d is no patch", p.Offset)
	}
}

// behind tells whether something came to the node that a live subscription without a filter has missed.
func (b *mapSub) behind() bool {
	if b.state != simLive || !b.passesAll() {
		return false
	}
	latest := b.way().latest
	return b.at.Epoch == latest.Epoch && b.at.Offset < latest.Offset
}

func (b *mapSub) passesAll() bool { return !b.filtered && !b.s.serverFilter }

func (b *mapSub) way() *way { return &b.s.ways[b.c.connection.node.index] }

// missing says what is wrong once everything had time to arrive; empty if nothing is.
func (b *mapSub) missing() string {
	if b.state != simLive {
		return "not subscribed"
	}
	if at := b.s.position(); b.at.Epoch != at.Epoch {
		return "in epoch " + b.at.Epoch + " of " + at.Epoch
	}
	truth := b.s.replica(b.s.epoch, b.passes)
	truth.advance(b.s.top)
	return truth.differs(b.has, b.show)
}

// patched tells whether the subscription has delta compression.
func (b *mapSub) patched() bool {
	return b.delta && b.s.withDelta && !b.s.opts.Ephemeral
}

func (b *mapSub) passes(tags map[string]string) bool {
	return (!b.filtered || tags["t"] == "x") && (!b.s.serverFilter || tags["u"] != "2")
}

// show is a payload as this subscription shows it.
func (b *mapSub) show(data []byte) []byte {
	if b.c.enc == protocol.JSON && !b.patched() {
		return asSeen(data)
	}
	return data
}

// payload undoes what delta negotiation did to the data. base is the value of the key before.
func (b *mapSub) payload(p *protocol.Publication, base []byte) []byte {
	data := p.Data
	if b.patched() && b.c.enc == protocol.JSON {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			b.fail("delta data is no string: %v", err)
		}
		if data = []byte(s); p.Removed && s == "null" {
			data = nil
		}
	}
	if !p.Delta {
		return data
	}
	patched, err := fossiltest.Apply(base, data)
	if err != nil || !b.patched() {
		b.fail("patch %q does not apply to %q: %v", data, base, err)
	}
	b.c.w.patches++
	if !b.passesAll() {
		b.c.w.filteredPatches++
	}
	return patched
}

// options are what the server lets a subscription have.
func (s *simMap) options() channel.SubscribeOptions {
	m := s.opts
	o := channel.SubscribeOptions{
		Map: &m, Presence: true, EmitJoinLeave: true, AllowDelta: s.withDelta, AllowTagsFilter: true, AllowCompaction: s.index%2 == 0,
	}
	if s.serverFilter {
		o.ServerTagsFilter = serverFilter
	}
	return o
}

func newMapClient(w *mapWorld, i int) *mapClient {
	r := w.random
	c := &mapClient{w: w, name: "client " + strconv.Itoa(i), enc: protocol.Encoding(r.IntN(2)), flag: int64(r.IntN(2)), waiting: make(map[uint32]mapRequest)}
	for _, s := range w.maps {
		c.subs = append(c.subs, &mapSub{
			c: c, s: s, filtered: r.IntN(3) == 0, delta: r.IntN(2) == 0, direct: r.IntN(5) == 0, eager: r.IntN(2) == 0,
		})
	}
	return c
}
