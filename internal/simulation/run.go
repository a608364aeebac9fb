// Package simulation runs whole clusters from one seed, in virtual time: nodes, clients, backends, an engine, and the
// networks between them, with faults. A book checks what the clients were told.
package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/internal/random"
	"github.com/gyrohq/gyro/protocol"
)

// run is one simulation.
type run struct {
	*scheduler
	plan        *plan
	log         *log
	net         *network
	engine      engineServer
	machines    []*machine
	users       []program
	book        *book
	application *application
	orders      *orders
	calm        *calm
	began       map[string]map[string]int // client ID, channel: how often the client was told that it is subscribed
	failures    []string
	healed      bool
	vanished    atomic.Bool // a node ended, and others may not know
	ending      int         // nodes and clients that end
	count       int
	chance      *rand.Rand
	choices     map[string]*rand.Rand
	seen        map[string]int // how many times each moment has come
	pairs       pairs
	leases      map[[2]string]lease // by connection and channel; see lend
	expelled    map[string]bool     // users whose connections the server has ended as expired
	editions    map[string]edition  // that a node starts with, by channel
}

// chances is the source of identifiers and pauses of nodes and clients. A pause depends on the time alone, an identifier
// also on how many were made at that time, so the order of goroutines hardly matters.
type chances struct {
	seed    uint64
	mu      sync.Mutex
	at      time.Time
	count   uint64
	streams int
}

func (c *chances) part() float64 {
	return rand.New(rand.NewPCG(c.seed, uint64(time.Now().UnixNano()))).Float64()
}

// stream is for clients, which are made one after the other.
func (c *chances) stream() func() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams++
	r := stream(c.seed, fmt.Sprint("chance ", c.streams))
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	}
}

func (c *chances) identifier() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); !now.Equal(c.at) {
		c.at, c.count = now, 0
	}
	c.count++
	return rand.NewPCG(c.seed, uint64(c.at.UnixNano())<<12+c.count).Uint64()
}

// simulate runs a plan in a bubble, and returns its log and what was wrong.
func simulate(p *plan, hit pairs, logged bool) (lines, failures []string) {
	chances := &chances{seed: p.Seed}
	defer random.Use(random.Source{Uint64: chances.identifier, Float64: chances.part, Hash: hash, Stream: chances.stream})()
	s := newScheduler()
	l := &log{scheduler: s, off: !logged}
	n := p.Network
	r := &run{
		scheduler: s, plan: p, log: l, leases: map[[2]string]lease{}, expelled: map[string]bool{}, editions: map[string]edition{}, began: map[string]map[string]int{}, choices: map[string]*rand.Rand{}, seen: map[string]int{}, pairs: hit, chance: stream(p.Seed, "run"),
		net: &network{scheduler: s, log: l, seed: p.Seed, count: map[string]int{}, live: map[*conn]bool{}, closed: map[string]uint32{}, lag: n.Lag, jitter: n.Jitter, window: cmp.Or(n.Room, 32<<10), flaps: map[string]time.Duration{}},
	}
	r.book = newBook(r.fail)
	r.book.lossy, r.book.filtered, r.book.goesBack = n.Loss > 0, r.filtered, p.GoesBack
	r.book.quiet = r.modelled
	r.calm = newCalm(r)
	r.book.calm = r.calm
	r.engine = newEngine(s, l, p, r.book)
	r.net.fail = r.fail
	r.net.ends = func(conn, client string, code uint32) { r.lapsed(conn, client, "", code) }
	r.net.moment = func(name, client string) { r.moment(name, nil, r.named(client)) }
	r.application = &application{r: r, clients: map[string]*served{}}
	r.orders = &orders{r: r, list: map[string]*order{}}
	for i := range p.Nodes {
		name := fmt.Sprintf("n%d", i)
		m := &machine{name: name, down: true, clock: r.newClock(name)}
		r.machines = append(r.machines, m)
		r.start(m)
		r.watch(m)
	}
	for i := range p.Clients {
		u := r.newProgram(i)
		r.users = append(r.users, u)
		s.after(time.Duration(r.chance.Int64N(int64(2*time.Second))), u.user().name, func() {
			u.connect()
			for n, ch := range p.Names {
				if r.chance.IntN(3) > 0 && !kindOf(ch).server {
					s.after(time.Duration(n+1)*time.Microsecond, u.user().name, func() { u.subscribe(ch) })
				}
			}
		})
	}
	s.after(time.Second, "engine sweep", r.engine.sweep)
	for i, st := range p.Steps {
		s.after(st.At, fmt.Sprintf("step %04d", i), func() { r.step(st) })
	}
	s.run(chaos)
	r.heal()
	s.after(5*time.Second, "probe", r.probe)
	s.after(forgetting, "ghosts", r.ghosts)
	s.after(recovery, "calm", r.beginCalm)
	s.after(quiet-time.Second, "rest", func() { r.engine.rest(true) })
	s.run(chaos + quiet)
	r.calm.end()
	r.check()
	r.engine.rest(false)
	r.finish()
	return l.lines, r.failures
}

func (r *run) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.log.names != nil {
		text = r.log.names.Replace(text)
	}
	r.failures = append(r.failures, text)
	r.log.add("FAILURE", "%s", text)
}

// anyMachine chooses a node for a client, as a load balancer does.
func (r *run) anyMachine(name string) func() *machine {
	return func() *machine {
		if r.choices[name] == nil {
			r.choices[name] = stream(r.plan.Seed, "choice "+name)
		}
		k := r.choices[name].IntN(len(r.machines))
		for i := range r.machines {
			if m := r.machines[(k+i)%len(r.machines)]; !m.down && !m.cut {
				return m
			}
		}
		return nil
	}
}

// of returns the connections of a node.
func (n *network) of(m *machine) []*conn {
	found := []*conn{}
	for c := range n.live {
		if m == nil || c.node == m {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *conn) int { return strings.Compare(a.name, b.name) })
	return found
}

// step makes a step of the plan.
func (r *run) step(st step) {
	m := r.machines[st.Number%len(r.machines)]
	u := r.users[st.Number%len(r.users)]
	ch := r.plan.Names[st.Other%len(r.plan.Names)]
	r.log.add("step", "%s %d %d", st.Kind, st.Number, st.Other)
	if !r.clientDoes(st, m, u, ch) && !r.connectionFails(st) && !r.nodeFails(st, m) && !r.applicationDoes(st, m, u, ch) {
		r.engineFails(st, m)
	}
}

// clientDoes reports whether a step is a deed of a client, or a publication.
func (r *run) clientDoes(st step, m *machine, u program, ch string) bool {
	switch st.Kind {
	case "publish":
		r.publish(m, ch, st.Number)
	case "subscribe":
		r.subscribe(m, u, ch)
	case "unsubscribe":
		r.unsubscribe(m, u, ch)
	case "client publish":
		switch {
		case derived(ch):
		case kindOf(ch).changes != nil:
			if u, is := u.(*user); is {
				u.change(ch, st.Number)
			}
		default:
			u.publish(ch)
		}
	case "connect":
		u.connect()
	case "disconnect":
		u.disconnect()
	case "ask":
		u.ask([]protocol.Method{protocol.MethodPresence, protocol.MethodPresenceStats, protocol.MethodHistory, protocol.MethodRPC, protocol.MethodSend}[st.Number%5], ch)
	case "trick":
		if m, ok := u.(*model); ok && kindOf(ch).changes == nil {
			m.trickWith(st.Other, ch)
		}
	default:
		return false
	}
	return true
}

// connectionFails reports whether a step is about a connection of a client.
func (r *run) connectionFails(st step) bool {
	with := func(f func(*conn)) {
		if all := r.net.of(nil); len(all) > 0 {
			f(all[st.Number%len(all)])
		}
	}
	switch st.Kind {
	case "reset":
		with(func(c *conn) {
			if st.Other%2 == 0 { // and the next one breaks before everything is subscribed again
				r.net.flaps[c.user] = time.Duration(st.Other) * 400 * time.Microsecond
			}
			c.reset()
		})
	case "half open":
		with(func(c *conn) { c.downCut, c.upCut = c.downCut || st.Other%2 == 0, c.upCut || st.Other%3 > 0 })
	case "slow":
		with(func(c *conn) {
			if c.stall(); st.Other%4 == 0 {
				r.swamp(c)
			}
		})
	case "read":
		with((*conn).read)
	default:
		return false
	}
	return true
}

// nodeFails reports whether a step is about a node and its connection to the engine.
func (r *run) nodeFails(st step, m *machine) bool {
	switch st.Kind {
	case "sever":
		m.link.sever()
	case "mend":
		m.link.mend()
	case "crash":
		r.crash(m)
	case "stop":
		r.stop(m)
	case "drain":
		r.drain(m)
	case "start":
		r.restart(m)
	case "partition":
		m.cut = true
	case "clock":
		r.jump(m, st.Other)
	case "heal":
		r.unite(m)
	default:
		return false
	}
	return true
}

// engineFails is a step about the engine.
func (r *run) engineFails(st step, m *machine) {
	switch st.Kind {
	case "engine down":
		r.engine.halt()
	case "engine up":
		r.engine.resume(st.Number)
	case "replicate":
		r.engine.replicate()
	case "failover":
		r.engine.failover()
	default:
		r.engine.fault(m.link, st)
	}
}

// applicationDoes reports whether a step is a command of the server API.
func (r *run) applicationDoes(st step, m *machine, u program, ch string) bool {
	switch st.Kind {
	case "forget":
		if k := kindOf(ch); k.history.HistorySize > 0 && k.sequence == gapless {
			r.operate(m, "forget "+ch, func(ctx context.Context, n *gyro.Node) error { return n.RemoveHistory(ctx, ch) }, func(error) {})
		}
	case "clear":
		if kindOf(ch).changes != nil && !derived(ch) {
			r.operate(m, "clear "+ch, func(ctx context.Context, n *gyro.Node) error { return n.Maps().Clear(ctx, ch) }, func(error) {})
		}
	case "kick", "take away", "expire":
		r.command(m, u.user(), st.Kind, ch, st.Other)
	case "give":
		if of := r.serverChannels(); len(of) > 0 {
			r.subscribe(m, u, of[st.Other%len(of)])
		}
	case "reload":
		r.reload(st.Number, ch, edition(st.Other))
	case "survey":
		r.survey(m)
	default:
		return false
	}
	return true
}

// unite ends the partition of a node.
func (r *run) unite(m *machine) {
	m.cut = false
	for _, c := range r.net.of(m) {
		c.heal()
	}
}

// restart starts a node that does not run.
func (r *run) restart(m *machine) {
	if m.down && !m.starting {
		r.start(m)
	}
}

// operate is a call of the application on a node, by its server API.
func (r *run) operate(m *machine, key string, do func(context.Context, *gyro.Node) error, done func(error)) {
	if m.down {
		return
	}
	node, began := m.node, r.now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := do(ctx, node)
		r.tell(m.name+" "+key, func() {
			r.log.add(m.name, "%s: %v", key, err)
			if !r.vanished.Load() || !errors.Is(err, gyro.ErrNoAnswer) { // that node is silent for some minutes
				r.calm.called(key, began, err)
			}
			done(err)
		})
	}()
}

// publish has the backend publish, again and again until it succeeds, with an idempotency key.
func (r *run) publish(m *machine, ch string, number int) {
	switch {
	case derived(ch):
		return
	case kindOf(ch).changes != nil:
		r.change(m, ch, number)
		return
	}
	r.count++
	name := "backend"
	if kindOf(ch).history.HistorySize > 0 {
		name = [...]string{passing, versioned, name, name, name, name}[number%6]
	}
	data := fmt.Sprintf(`{"id":"%s-%d","text":"the same in all publications, so that deltas are small"}`, name, r.count)
	r.book.tried(ch, data)
	r.attempt(m, ch, data, 0)
}

func (r *run) attempt(m *machine, ch, data string, attempt int) {
	if m.down {
		return
	}
	node, began := m.node, r.now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		res, err := node.Publish(ctx, ch, []byte(data), r.publishOptions(m, ch, data))
		r.tell("backend "+data, func() {
			r.log.add("backend", "published %s to %s: %d of %s, %v", data, ch, res.Position.Offset, res.Position.Epoch, err)
			r.calm.called("publish "+data, began, err)
			switch {
			case err == nil && res.Suppressed == channel.SuppressVersion && attempt > 0: // perhaps by the attempt before
			case err == nil && res.Suppressed == channel.SuppressVersion:
				r.book.suppressed(ch, data)
			case err == nil:
				r.book.acknowledged(ch, data, client.StreamPosition(res.Position))
				r.calm.published(ch, data, began)
			case attempt < 3 && kindOf(ch).sequence != unnumbered: // a failover would forget the idempotency key
				r.after(time.Second, "backend "+data, func() { r.attempt(r.machines[(attempt+1)%len(r.machines)], ch, data, attempt+1) })
			}
		})
	}()
}

// heal ends all faults.
func (r *run) heal() {
	r.log.add("step", "all faults end")
	r.healed, r.book.healed = true, r.now()
	r.engine.heal()
	r.setClocks()
	for _, m := range r.machines {
		r.unite(m)
		m.link.mend()
		r.restart(m)
	}
	for _, c := range r.net.of(nil) {
		c.read()
	}
	clear(r.net.flaps)
	r.restore()
	for i, u := range r.users {
		at := time.Duration(i) * time.Millisecond
		r.after(at, u.user().name, u.connect)
		for n, ch := range r.plan.Names {
			if n%2 == 0 && !kindOf(ch).server {
				r.after(at+time.Duration(n+1)*time.Microsecond, u.user().name, func() { u.subscribe(ch) })
			}
		}
	}
}

// serverChannels are the channels to which the server subscribes clients.
func (r *run) serverChannels() []string {
	return slices.DeleteFunc(slices.Clone(r.plan.Names), func(ch string) bool { return !kindOf(ch).server })
}

// check asks the nodes what is true now.
func (r *run) check() {
	r.orders.check()
	for _, c := range r.net.of(nil) {
		c.wire.overdue(11 * time.Second)
	}
	waiting := 0
	for _, m := range r.machines {
		for _, ch := range r.plan.Names {
			waiting++
			go func() {
				top, entries, err := r.content(m.node, ch)
				all, err2 := m.node.Presence(context.Background(), ch)
				r.tell("check "+m.name+" "+ch, func() {
					waiting--
					if err != nil || err2 != nil {
						r.fail("%s: history of %s: %v, presence: %v", m.name, ch, err, err2)
						return
					}
					r.book.settled(ch, top)
					r.book.converged(ch, entries)
					r.book.present(m.name, ch, slices.Collect(maps.Keys(all)))
				})
			}()
		}
	}
	end := r.now()
	for range 100 {
		if end += 100 * time.Millisecond; waiting > 0 {
			r.scheduler.run(end)
		}
	}
	if waiting > 0 {
		r.fail("%d checks get no answer", waiting)
	}
}

// finish ends everything: nothing may be left.
func (r *run) finish() {
	for _, u := range r.users {
		u.close()
	}
	r.scheduler.run(r.now() + 3*time.Second)
	r.idle()
	for _, m := range r.machines {
		m.down = true
		r.end(m.node, 5*time.Second, func() {})
	}
	r.scheduler.run(r.now() + 20*time.Second)
	if r.ending > 0 {
		r.fail("%d nodes and clients do not end", r.ending)
	}
	r.application.check()
}
