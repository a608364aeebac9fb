package metrics

import (
	"time"

	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
)

// tally has the sums over the turns of loops. Its owner holds a lock.
type tally struct {
	transports  []*transport
	connections map[connection]flow
	disconnects map[code]uint64
	refusals    [observe.NumLimits]uint64
	spaces      []*space
}

// space has the sums of a namespace; the one with the empty name also has the commands without a channel.
type space struct {
	name          string
	commands      [observe.NumMessages]distribution
	errors        map[failure]uint64
	unsubscribes  map[code]uint64
	recoveries    [2][2]uint64 // failed or succeeded, without or with publications
	recovered     distribution
	subscriptions map[observe.Agent]flow
	filtered      uint64
	lags          distribution
	broadcasts    distribution
	writes        distribution
}

type failure struct {
	method observe.Message
	code   code
}

type connection struct {
	transport string
	http      uint8
	agent     observe.Agent
}

type flow struct{ came, went uint64 }

type transport struct {
	name, space    string
	sent, received [observe.NumMessages]traffic
	pongs          distribution
}

type traffic struct{ messages, bytes uint64 }

func (a *traffic) add(b traffic) {
	a.messages += b.messages
	a.bytes += b.bytes
}

// find returns the element that is accepts, or adds the result of made. Most calls ask for the element of the call
// before, so it goes to the front.
func find[T any](list *[]*T, is func(*T) bool, made func() *T) *T {
	for i, e := range *list {
		if is(e) {
			(*list)[0], (*list)[i] = e, (*list)[0]
			return e
		}
	}
	e := made()
	*list = append(*list, e)
	return e
}

func (t *tally) transport(name, in string) *transport {
	return find(&t.transports, func(e *transport) bool { return e.name == name && e.space == in }, func() *transport {
		return &transport{name: name, space: in}
	})
}

func (t *tally) space(name string) *space {
	return find(&t.spaces, func(e *space) bool { return e.name == name }, func() *space { return &space{name: name} })
}

func (t *tally) turn(o *observe.Turn, d *clientDescs, now time.Duration) {
	for i := range o.Transports {
		e := &o.Transports[i]
		t.transport(e.Name, e.Namespace).turn(e)
	}
	for _, e := range o.Connections {
		flows(&t.connections, connection{e.Transport, e.HTTP, e.Agent}, e.Connected, e.Disconnected)
	}
	for _, cmd := range o.Commands {
		s := t.space(cmd.Namespace)
		s.commands[cmd.Method].observe(d.commands, cmd.Took.Seconds(), 1, now)
		if cmd.Code != 0 {
			count(&s.errors, failure{cmd.Method, codeOf(cmd.Code)}, 1)
		}
	}
	for _, p := range o.Pongs {
		t.transport(p.Transport, "").pongs.observe(d.pongs, p.Took.Seconds(), 1, now)
	}
	for _, r := range o.Recoveries {
		s := t.space(r.Namespace)
		s.recoveries[oneIf(r.Recovered)][oneIf(r.Publications > 0)]++
		if d.recovered != nil {
			s.recovered.observe(d.recovered, float64(r.Publications), 1, now)
		}
	}
	for _, e := range o.Disconnects {
		if byServer(e.Disconnect) {
			count(&t.disconnects, codeOf(e.Disconnect.Code), e.Count)
		}
	}
	for _, e := range o.Unsubscribes {
		count(&t.space(e.Namespace).unsubscribes, codeOf(e.Code), e.Count)
	}
	for l, n := range o.Refusals {
		t.refusals[l] += uint64(n)
	}
	for _, e := range o.Subscriptions {
		flows(&t.space(e.Namespace).subscriptions, e.Agent, e.Subscribed, e.Unsubscribed)
	}
	for _, f := range o.Filtered {
		t.space(f.Namespace).filtered += uint64(f.Count)
	}
	t.timings(o, d, now)
}

func (t *tally) timings(o *observe.Turn, d *clientDescs, now time.Duration) {
	for _, l := range o.Lags {
		t.space(l.Namespace).lags.observe(d.lag, max(l.Took.Seconds(), 0), uint64(l.Count), now) // clocks differ
	}
	for _, b := range o.Broadcasts {
		t.space(b.Namespace).broadcasts.observe(d.broadcast, b.Took.Seconds(), uint64(b.Count), now)
	}
	for _, w := range o.Writes {
		t.space(w.Namespace).writes.observe(d.write, w.Took.Seconds(), uint64(w.Count), now)
	}
}

func (t *transport) turn(o *observe.Transport) {
	for m := range o.Sent {
		t.sent[m].add(traffic{uint64(o.Sent[m].Messages), uint64(o.Sent[m].Bytes)})
		t.received[m].add(traffic{uint64(o.Received[m].Messages), uint64(o.Received[m].Bytes)})
	}
}

func (t *tally) add(o *tally, now time.Duration) {
	for _, e := range o.transports {
		t.transport(e.name, e.space).add(e, now)
	}
	for key, f := range o.connections {
		flows(&t.connections, key, int(f.came), int(f.went))
	}
	addAll(&t.disconnects, o.disconnects)
	for l, n := range o.refusals {
		t.refusals[l] += n
	}
	for _, e := range o.spaces {
		t.space(e.name).add(e, now)
	}
}

func (s *space) add(o *space, now time.Duration) {
	for m := range o.commands {
		s.commands[m].add(&o.commands[m], now)
	}
	addAll(&s.errors, o.errors)
	addAll(&s.unsubscribes, o.unsubscribes)
	for i := range o.recoveries {
		for j, n := range o.recoveries[i] {
			s.recoveries[i][j] += n
		}
	}
	s.recovered.add(&o.recovered, now)
	for a, f := range o.subscriptions {
		flows(&s.subscriptions, a, int(f.came), int(f.went))
	}
	s.filtered += o.filtered
	s.lags.add(&o.lags, now)
	s.broadcasts.add(&o.broadcasts, now)
	s.writes.add(&o.writes, now)
}

func (t *transport) add(o *transport, now time.Duration) {
	for m := range o.sent {
		t.sent[m].add(o.sent[m])
		t.received[m].add(o.received[m])
	}
	t.pongs.add(&o.pongs, now)
}

// disconnects are exported from the start, so that Prometheus sees the first of them as a growth.
var disconnects = [...]protocol.Disconnect{
	protocol.DisconnectShutdown, protocol.DisconnectServerError, protocol.DisconnectExpired, protocol.DisconnectSubExpired,
	protocol.DisconnectSlow, protocol.DisconnectWriteError, protocol.DisconnectInsufficientState, protocol.DisconnectForceReconnect,
	protocol.DisconnectNoPong, protocol.DisconnectTooManyRequests, protocol.DisconnectStateInvalidated, protocol.DisconnectInvalidToken,
	protocol.DisconnectBadRequest, protocol.DisconnectStale, protocol.DisconnectForceNoReconnect, protocol.DisconnectConnectionLimit,
	protocol.DisconnectChannelLimit, protocol.DisconnectInappropriateProtocol, protocol.DisconnectPermissionDenied,
	protocol.DisconnectNotAvailable, protocol.DisconnectTooManyErrors,
}

// export sends all counts that are not 0, and the zeros that alerts need to notice a first event.
func (t *tally) export(out values, d *clientDescs, how *naming, now time.Duration) {
	for _, e := range t.transports {
		e.export(out, d, now)
	}
	var clients flow
	var list []merged
	for key, f := range t.connections {
		list = merge(list, how.connection(key), f)
		clients = clients.plus(f)
	}
	for i := range list {
		list[i].export(out, d.connections, d.connected)
	}
	for _, known := range disconnects {
		count(&t.disconnects, code(known.Code), 0)
	}
	for c, n := range t.disconnects {
		out.count(d.disconnects, n, c.String())
	}
	for l, n := range t.refusals {
		out.count(d.refusals, n, observe.Limit(l).String())
	}
	out.counted(d.actions, clients.came, "add_client", "")
	out.counted(d.actions, clients.went, "remove_client", "")
	for _, e := range t.spaces {
		e.export(out, d, how, now)
	}
}

func (s *space) export(out values, d *clientDescs, how *naming, now time.Duration) {
	for m := range s.commands {
		s.commands[m].export(out, d.commands, now, observe.Message(m).String(), s.name)
	}
	for f, n := range s.errors {
		out.count(d.errors, n, f.method.String(), f.code.String(), s.name)
	}
	for c, n := range s.unsubscribes {
		out.count(d.unsubscribes, n, c.String(), s.name)
	}
	no := [2]string{"no", "yes"}
	for i := range s.recoveries {
		for j, n := range s.recoveries[i] {
			if n > 0 || len(s.subscriptions) > 0 {
				out.count(d.recover, n, no[i], s.name, no[j])
			}
		}
	}
	if d.recovered != nil {
		s.recovered.export(out, d.recovered, now, s.name)
	}
	var all flow
	var list []merged
	for a, f := range s.subscriptions {
		list = merge(list, how.subscription(a, s.name), f)
		all = all.plus(f)
	}
	for i := range list {
		list[i].export(out, d.subscriptions, d.subscribed)
	}
	out.counted(d.actions, all.came, "add_subscription", s.name)
	out.counted(d.actions, all.went, "remove_subscription", s.name)
	s.lags.export(out, d.lag, now, s.name)
	s.broadcasts.export(out, d.broadcast, now, observe.EventPublication.String(), s.name)
	s.writes.export(out, d.write, now, s.name)
	out.counted(d.filtered, s.filtered, s.name)
}

func (f flow) plus(o flow) flow { return flow{f.came + o.came, f.went + o.went} }

// left may be negative: a loop may report the end of something before another loop has reported its beginning.
func (f flow) left() float64 { return float64(f.came) - float64(f.went) }

func (t *transport) export(out values, d *clientDescs, now time.Duration) {
	for m := range t.sent {
		frame := observe.Message(m).String()
		if n := t.sent[m]; n.messages > 0 {
			out.count(d.messagesSent, n.messages, t.name, frame, t.space)
			out.count(d.bytesSent, n.bytes, t.name, frame, t.space)
		}
		if n := t.received[m]; n.messages > 0 {
			out.count(d.messagesReceived, n.messages, t.name, frame, t.space)
			out.count(d.bytesReceived, n.bytes, t.name, frame, t.space)
		}
	}
	t.pongs.export(out, d.pongs, now, t.name)
}

func flows[K comparable](m *map[K]flow, key K, came, went int) {
	if *m == nil {
		*m = make(map[K]flow)
	}
	(*m)[key] = (*m)[key].plus(flow{uint64(came), uint64(went)})
}

func count[K comparable](m *map[K]uint64, key K, n int) {
	if *m == nil {
		*m = make(map[K]uint64)
	}
	(*m)[key] += uint64(n)
}

func addAll[K comparable](m *map[K]uint64, o map[K]uint64) {
	for key, n := range o {
		count(m, key, int(n))
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}
