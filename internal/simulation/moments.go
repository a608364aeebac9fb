package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// moments are the states of something that is under way in a cluster, at which a fault may hit it. Rare ones come a few
// times in a run.
var moments = []moment{
	{name: "client dials", of: ofClient}, {name: "client is accepted"}, {name: "client is connected"}, {name: "client is subscribed"},
	{name: "client recovers", rare: true}, {name: "client loses its connection", of: ofClient},
	{name: "handler connecting"}, {name: "handler subscribe"}, {name: "handler publish", rare: true}, {name: "handler presence", rare: true},
	{name: "engine subscribe", rare: true}, {name: "engine present"}, {name: "engine history"}, {name: "engine join"}, {name: "engine publish"},
	{name: "engine absent"}, {name: "engine leave"}, {name: "engine unsubscribe", rare: true}, {name: "engine presence", rare: true},
	{name: "engine control"}, {name: "event for a node"}, {name: "node starts", of: ofNode, rare: true}, {name: "node stops", of: ofNode, rare: true},
}

type moment struct {
	name string
	of   scope
	rare bool
}

// scope is the part of a cluster that a moment is about.
type scope int

const (
	ofConnection scope = iota // a client, its connection and its node
	ofClient                  // a client without a connection
	ofNode                    // a node without connections
)

// faults are what may happen at a moment, to a part of its scope.
var faults = []struct {
	name string
	hits []scope
}{
	{"reset", connections}, {"half open", connections}, {"slow", connections},
	{"disconnect", clients}, {"unsubscribe", clients}, {"close", clients}, {"kick", clients}, {"take away", clients},
	{"sever", nodes}, {"crash", nodes}, {"stop", nodes}, {"partition", nodes}, {"clock", nodes},
	{"engine down", anything}, {"failover", anything},
}

var (
	connections = []scope{ofConnection}
	clients     = []scope{ofConnection, ofClient}
	nodes       = []scope{ofConnection, ofNode}
	anything    = []scope{ofConnection, ofClient, ofNode}
)

// strike is a fault at a moment, when the moment has come for the nth time.
type strike struct {
	Moment, Fault string
	Nth           int
}

// pairs counts the faults that struck, by moment and fault.
type pairs map[[2]string]int

// possible are the strikes that can hit something.
var possible = func() (list []strike) {
	for _, m := range moments {
		for _, f := range faults {
			if slices.Contains(f.hits, m.of) {
				list = append(list, strike{m.name, f.name, 1})
			}
		}
	}
	return list
}()

// strikes returns some for a seed. Successive seeds go through all that are possible.
func strikes(seed uint64) []strike {
	r := stream(seed, "strikes")
	list := []strike{}
	for i := range uint64(4) {
		s := possible[(seed*4+i)%uint64(len(possible))]
		most := 60
		if slices.ContainsFunc(moments, func(m moment) bool { return m.name == s.Moment && m.rare }) {
			most = 4
		}
		s.Nth = 1 + r.IntN(most)
		list = append(list, s)
	}
	return list
}

// moment is called when something has come to a moment. u or m may be nil.
func (r *run) moment(name string, m *machine, u program) {
	if r.healed {
		return
	}
	r.seen[name]++
	for i, s := range r.plan.Strikes {
		if s.Moment != name || s.Nth != r.seen[name] {
			continue
		}
		r.after(0, fmt.Sprint("strike ", i), func() {
			if r.healed {
				return
			}
			if r.strike(s.Fault, m, u) {
				r.log.add("strike", "%s when %s", s.Fault, s.Moment)
				r.pairs[[2]string{s.Moment, s.Fault}]++
			}
		})
	}
}

// strike reports whether there was something to hit.
func (r *run) strike(fault string, m *machine, u program) bool {
	conns := r.net.of(m)
	if u != nil {
		conns = slices.DeleteFunc(r.net.of(nil), func(c *conn) bool { return !strings.HasPrefix(c.name, u.user().name+"#") })
	}
	if m == nil && len(conns) > 0 {
		m = conns[0].node
	}
	if m == nil { // the client has no connection: any node
		m = r.anyMachine("strike")()
	}
	if u == nil && len(conns) > 0 {
		u = r.user(conns[0])
	}
	switch fault {
	case "reset", "half open", "slow":
		if len(conns) == 0 {
			return false
		}
		r.disturb(fault, conns[0])
	case "sever", "crash", "stop", "partition", "clock":
		if m == nil || m.idle() {
			return false
		}
		r.harm(fault, m)
	case "engine down":
		r.engine.halt()
		r.after(500*time.Millisecond, "engine up", func() { r.engine.resume(0) })
	case "failover":
		r.engine.failover()
	default:
		if u == nil || m == nil || m.down {
			return false
		}
		r.act(fault, m, u)
	}
	return true
}

// disturb does something to a connection.
func (r *run) disturb(fault string, c *conn) {
	switch fault {
	case "reset":
		c.reset()
	case "half open":
		c.downCut, c.upCut = true, true
	case "slow":
		c.slow = true
		r.after(3*time.Second, c.name, c.read)
	}
}

// harm does something to a node, and mends it later.
func (r *run) harm(fault string, m *machine) {
	switch fault {
	case "sever":
		m.link.sever()
		r.after(2*time.Second, m.name+" mend", m.link.mend)
	case "crash":
		r.crash(m)
		r.after(time.Second, m.name+" start", func() { r.restart(m) })
	case "stop":
		r.stop(m)
		r.after(time.Second, m.name+" start", func() { r.restart(m) })
	case "partition":
		m.cut = true
		r.after(3*time.Second, m.name+" heal", func() { r.unite(m) })
	case "clock":
		r.jump(m, r.chance.IntN(1000))
	}
}

// act is a deed of a client, or of an operator to a client.
func (r *run) act(fault string, m *machine, u program) {
	ch := r.plan.Names[r.chance.IntN(len(r.plan.Names))]
	switch fault {
	case "disconnect":
		u.disconnect()
		r.after(time.Second, u.user().name, u.connect)
	case "unsubscribe":
		r.unsubscribe(m, u, ch)
		r.after(time.Second, u.user().name, func() { r.subscribe(m, u, ch) })
	case "close":
		u.close()
	default:
		r.command(m, u.user(), fault, ch, r.chance.IntN(1000))
	}
}

// user returns the user of a connection.
func (r *run) user(c *conn) program {
	name, _, _ := strings.Cut(c.name, "#")
	return r.named(name)
}

func (r *run) named(name string) program {
	for _, u := range r.users {
		if u.user().name == name {
			return u
		}
	}
	return nil
}

// table prints the pairs: a row per moment, a column per fault.
func (p pairs) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-28s", "")
	for _, f := range faults {
		fmt.Fprintf(&b, " %11s", f.name)
	}
	for _, m := range moments {
		fmt.Fprintf(&b, "\n%-28s", m.name)
		for _, f := range faults {
			if slices.Contains(f.hits, m.of) {
				fmt.Fprintf(&b, " %11d", p[[2]string{m.name, f.name}])
			} else {
				fmt.Fprintf(&b, " %11s", "-")
			}
		}
	}
	empty := 0
	for _, s := range possible {
		if p[[2]string{s.Moment, s.Fault}] == 0 {
			empty++
		}
	}
	fmt.Fprintf(&b, "\n%d of %d pairs are empty", empty, len(possible))
	return b.String()
}
