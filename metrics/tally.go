package metrics

import (
	"time"

	"github.com/gyrohq/gyro/observe"
)

// tally is what the turns of loops add up to. Its owner holds a lock.
type tally struct {
	transports   []transport
	commands     [observe.NumMessages]distribution
	errors       map[failure]uint64
	disconnects  map[code]uint64
	unsubscribes map[code]uint64
	recoveries   [2][2]uint64 // failed or succeeded, without or with publications
	recovered    distribution
	refusals     [observe.NumLimits]uint64
	subscribed   [observe.NumAgents]uint64
	unsubscribed [observe.NumAgents]uint64
	filtered     uint64
	lags         distribution
	broadcasts   distribution
}

// failure is an answer with an error.
type failure struct {
	method observe.Message
	code   code
}

// transport is what connections of one kind add up to.
type transport struct {
	name                    string
	connected, disconnected [observe.NumAgents]uint64
	sent, received          [observe.NumMessages]traffic
	pongs                   distribution
}

type traffic struct{ messages, bytes uint64 }

func (a *traffic) add(b traffic) {
	a.messages += b.messages
	a.bytes += b.bytes
}

// transport returns the counts of a kind of connections. There are as many as the program has kinds.
func (t *tally) transport(name string) *transport {
	for i := range t.transports {
		if t.transports[i].name == name {
			return &t.transports[i]
		}
	}
	t.transports = append(t.transports, transport{name: name})
	return &t.transports[len(t.transports)-1]
}

// turn adds a turn of a loop.
func (t *tally) turn(o *observe.Turn, d *clientDescs, now time.Duration) {
	for i := range o.Transports {
		t.transport(o.Transports[i].Name).turn(&o.Transports[i])
	}
	for _, cmd := range o.Commands {
		t.commands[cmd.Method].observe(d.commands, cmd.Took.Seconds(), 1, now)
		if cmd.Code != 0 {
			count(&t.errors, failure{cmd.Method, codeOf(cmd.Code)}, 1)
		}
	}
	for _, p := range o.Pongs {
		t.transport(p.Transport).pongs.observe(d.pongs, p.Took.Seconds(), 1, now)
	}
	for _, r := range o.Recoveries {
		t.recoveries[oneIf(r.Recovered)][oneIf(r.Publications > 0)]++
		if d.recovered != nil {
			t.recovered.observe(d.recovered, float64(r.Publications), 1, now)
		}
	}
	for _, e := range o.Disconnects {
		if byServer(e.Disconnect) {
			count(&t.disconnects, codeOf(e.Disconnect.Code), e.Count)
		}
	}
	for _, e := range o.Unsubscribes {
		count(&t.unsubscribes, codeOf(e.Code), e.Count)
	}
	for l, n := range o.Refusals {
		t.refusals[l] += uint64(n)
	}
	for a, n := range o.Subscribed {
		t.subscribed[a] += uint64(n)
		t.unsubscribed[a] += uint64(o.Unsubscribed[a])
	}
	t.filtered += uint64(o.Filtered)
	for _, l := range o.Lags {
		t.lags.observe(d.lag, max(l.Took.Seconds(), 0), uint64(l.Count), now) // clocks differ
	}
	for _, b := range o.Broadcasts {
		t.broadcasts.observe(d.broadcast, b.Took.Seconds(), uint64(b.Count), now)
	}
}

func (t *transport) turn(o *observe.Transport) {
	for a := range o.Connected {
		t.connected[a] += uint64(o.Connected[a])
		t.disconnected[a] += uint64(o.Disconnected[a])
	}
	for m := range o.Sent {
		t.sent[m].add(traffic{uint64(o.Sent[m].Messages), uint64(o.Sent[m].Bytes)})
		t.received[m].add(traffic{uint64(o.Received[m].Messages), uint64(o.Received[m].Bytes)})
	}
}

// add adds another tally.
func (t *tally) add(o *tally, now time.Duration) {
	for i := range o.transports {
		t.transport(o.transports[i].name).add(&o.transports[i], now)
	}
	for m := range o.commands {
		t.commands[m].add(&o.commands[m], now)
	}
	addAll(&t.errors, o.errors)
	addAll(&t.disconnects, o.disconnects)
	addAll(&t.unsubscribes, o.unsubscribes)
	for i := range o.recoveries {
		for j, n := range o.recoveries[i] {
			t.recoveries[i][j] += n
		}
	}
	t.recovered.add(&o.recovered, now)
	for l, n := range o.refusals {
		t.refusals[l] += n
	}
	for a, n := range o.subscribed {
		t.subscribed[a] += n
		t.unsubscribed[a] += o.unsubscribed[a]
	}
	t.filtered += o.filtered
	t.lags.add(&o.lags, now)
	t.broadcasts.add(&o.broadcasts, now)
}

func (t *transport) add(o *transport, now time.Duration) {
	for a, n := range o.connected {
		t.connected[a] += n
		t.disconnected[a] += o.disconnected[a]
	}
	for m := range o.sent {
		t.sent[m].add(o.sent[m])
		t.received[m].add(o.received[m])
	}
	t.pongs.add(&o.pongs, now)
}

// export sends all that is not 0.
func (t *tally) export(out values, d *clientDescs, now time.Duration) {
	for i := range t.transports {
		t.transports[i].export(out, d, now)
	}
	for m := range t.commands {
		t.commands[m].export(out, d.commands, now, observe.Message(m).String(), "")
	}
	for f, n := range t.errors {
		out.count(d.errors, n, f.method.String(), f.code.String(), "")
	}
	for c, n := range t.disconnects {
		out.count(d.disconnects, n, c.String())
	}
	for c, n := range t.unsubscribes {
		out.count(d.unsubscribes, n, c.String(), "")
	}
	no := [2]string{"no", "yes"}
	for i := range t.recoveries {
		for j, n := range t.recoveries[i] {
			out.counted(d.recover, n, no[i], "", no[j])
		}
	}
	if d.recovered != nil {
		t.recovered.export(out, d.recovered, now, "")
	}
	for l, n := range t.refusals {
		out.counted(d.refusals, n, observe.Limit(l).String())
	}
	t.exportSubscriptions(out, d)
	t.lags.export(out, d.lag, now, "")
	t.broadcasts.export(out, d.broadcast, now, observe.EventPublication.String(), "")
	out.counted(d.filtered, t.filtered, "")
}

// exportSubscriptions sends the subscriptions and, as actions of the node, the clients that came and went.
func (t *tally) exportSubscriptions(out values, d *clientDescs) {
	var named [observe.AgentNamed + 1]struct{ begun, ended uint64 }
	var actions struct{ begun, ended, came, went uint64 }
	for a, begun := range t.subscribed {
		n := &named[observe.Agent(a)&observe.AgentNamed]
		n.begun += begun
		n.ended += t.unsubscribed[a]
		actions.begun += begun
		actions.ended += t.unsubscribed[a]
	}
	for a, n := range named {
		if n.begun > 0 {
			name := observe.Agent(a).Name()
			out.count(d.subscriptions, n.begun, name, "")
			out.gauge(d.subscribed, float64(n.begun)-float64(n.ended), name, "")
		}
	}
	for i := range t.transports {
		for a, n := range t.transports[i].connected {
			actions.came += n
			actions.went += t.transports[i].disconnected[a]
		}
	}
	out.counted(d.actions, actions.came, "add_client", "")
	out.counted(d.actions, actions.went, "remove_client", "")
	out.counted(d.actions, actions.begun, "add_subscription", "")
	out.counted(d.actions, actions.ended, "remove_subscription", "")
}

func (t *transport) export(out values, d *clientDescs, now time.Duration) {
	for a, n := range t.connected {
		if n > 0 {
			agent := observe.Agent(a)
			out.count(d.connections, n, t.name, "", agent.Name(), agent.Version())
			out.gauge(d.connected, float64(n)-float64(t.disconnected[a]), t.name, "", agent.Name(), agent.Version())
		}
	}
	for m := range t.sent {
		frame := observe.Message(m).String()
		if n := t.sent[m]; n.messages > 0 {
			out.count(d.messagesSent, n.messages, t.name, frame, "")
			out.count(d.bytesSent, n.bytes, t.name, frame, "")
		}
		if n := t.received[m]; n.messages > 0 {
			out.count(d.messagesReceived, n.messages, t.name, frame, "")
			out.count(d.bytesReceived, n.bytes, t.name, frame, "")
		}
	}
	t.pongs.export(out, d.pongs, now, t.name)
}

// count adds to a counter of a map, which is made if there is none.
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
