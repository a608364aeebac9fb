package session_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// TestMapsAreTheirModel simulates two nodes with clients that follow maps, while the maps change, forget,
// are cleared and get lost on their way, in virtual time. Whenever a client is live it has the map of its
// position, and in the end that of the broker; see mapSub for what is judged on the way.
func TestMapsAreTheirModel(t *testing.T) {
	total := *steps
	if total == 0 {
		total = usualSteps / 2
	}
	var sum mapStats
	for done, n := 0, *seed; done < total; n++ {
		w := newMapWorld(n, nil)
		if err := w.run(); err != nil {
			var log []string
			_ = newMapWorld(n, &log).run()
			t.Fatalf("%v\nreplay with -seed=%d -steps=1\n%s", err, n, strings.Join(log[max(0, len(log)-120):], "\n"))
		}
		done += stepsPerWorld
		sum.add(&w.mapStats)
	}
	t.Logf("%d steps: %+v", total, sum)
	if *steps == 0 && !sum.complete() {
		t.Error("the simulation does not reach what it is to test")
	}
}

// mapStats counts what the simulation reaches.
type mapStats struct {
	pages, lives, recoveries, ephemeral, restarts, told, late, delivered, patches, filteredPatches int
}

func (s *mapStats) all() []*int {
	return []*int{
		&s.pages, &s.lives, &s.recoveries, &s.ephemeral, &s.restarts, &s.told, &s.late, &s.delivered, &s.patches, &s.filteredPatches,
	}
}

func (s *mapStats) add(o *mapStats) {
	for i, n := range o.all() {
		*s.all()[i] += *n
	}
}

func (s *mapStats) complete() bool {
	for _, n := range s.all() {
		if *n == 0 {
			return false
		}
	}
	return true
}

// mapWorld is two nodes with clients, and a broker with maps.
type mapWorld struct {
	scene
	mapStats
	nodes   [2]*mapNode
	maps    []*simMap
	clients []*mapClient
	// sweeps is how rare deliveries are in the nodes.
	sweeps int
}

type mapNode struct {
	index int
	hub   *hub.Hub
	pool  sendqueue.Pool
	cfg   session.Config
}

// mapConnection is that of a client.
type mapConnection struct {
	line
	c       *mapClient
	node    *mapNode
	reading []reading // by map
}

// reading is what the node has read for a subscription: by that its replies are judged.
type reading struct {
	began int64 // when the application was asked
	// frozen is the position at the first page of entries, floor the number of changes then.
	frozen channel.StreamPosition
	floor  uint64
	// target is the top at the first page of changes. near tells whether one page more leads there, or behind
	// a page of entries to the top.
	target uint64
	near   bool
	// top is the position when the subscription was established, live the number of changes once it was live.
	top  channel.StreamPosition
	live uint64
	// excused is set if the latest read justifies 112.
	excused bool
}

func (l *mapConnection) of(s *simMap) *reading { return &l.reading[s.index] }

func newMapWorld(seed uint64, log *[]string) *mapWorld {
	w := &mapWorld{scene: newScene(seed, log)}
	r := w.random
	w.sweeps = 1 + 5*r.IntN(3)
	for i := range w.nodes {
		n := &mapNode{index: i, cfg: newPlayer().cfg}
		n.hub = hub.New(&n.pool.Arena)
		w.nodes[i] = n
	}
	queue, commands := 1000+r.IntN(8000), 1+r.IntN(6)
	for _, n := range w.nodes {
		n.cfg.QueueMaxSize, n.cfg.CommandLimit = queue, commands
	}
	for i := range 1 + r.IntN(2) {
		w.maps = append(w.maps, newSimMap(i, r))
	}
	for i := range 1 + r.IntN(5) {
		w.clients = append(w.clients, newMapClient(w, i))
	}
	return w
}

func (w *mapWorld) newConnection(c *mapClient) *mapConnection {
	w.counter++
	l := &mapConnection{
		line: line{conn: &fakeConn{room: -1}, id: c.name + "/" + strconv.Itoa(w.counter)},
		c:    c, node: w.nodes[w.random.IntN(len(w.nodes))], reading: make([]reading, len(w.maps)),
	}
	l.env = &fakeEnv{id: l.id, now: &w.now, hub: l.node.hub, pool: &l.node.pool, random: w.random}
	l.env.explained = func(_, ch string, why error) {
		if errors.Is(why, session.ErrLate) {
			w.late++
			l.late(l.sub(ch).s)
		}
	}
	l.execute = func(e effect.Effect) bool { return w.execute(l, e) }
	l.waits = func(e effect.Effect) bool {
		a, ok := e.(*effect.Attach)
		return ok && w.unrouted(l, a.Items[0])
	}
	l.read = func() { w.read(l) }
	w.open(&l.line)
	l.env.s.Init(l.env, &l.node.cfg, l.conn, connkind.New(&transport.Info{Name: "sim", Framer: framers[c.enc]}))
	return l
}

func (l *mapConnection) sub(ch string) *mapSub {
	for _, b := range l.c.subs {
		if b.s.name == ch {
			return b
		}
	}
	panic("no map " + ch)
}

// late judges a client's disconnect for having taken too long.
func (l *mapConnection) late(s *simMap) {
	timeout, took := s.opts.CatchUpTimeout, l.c.w.now-l.of(s).began
	if timeout == 0 {
		timeout = channel.DefaultCatchUpTimeout
	}
	if timeout < 0 || took <= int64(timeout) {
		l.c.fail("%s: late after %v of %v", s.name, time.Duration(took), timeout)
	}
}

// run lives the world through and to its end.
func (w *mapWorld) run() error {
	return w.simulate(func() error {
		for range stepsPerWorld {
			w.step()
			w.turn()
		}
		return w.comeToRest()
	})
}

// step does one random thing.
func (w *mapWorld) step() {
	r := w.random
	s, n := w.maps[r.IntN(len(w.maps))], w.nodes[r.IntN(len(w.nodes))]
	switch k := r.IntN(100); {
	case k < 20:
		w.change(s)
	case k < 45:
		w.deliver(s, n)
	case k < 72:
		w.work()
	case k < 88:
		w.client(w.clients[r.IntN(len(w.clients))])
	case k < 90:
		w.backend()
	case k < 95:
		w.check(s, n)
	case k < 97:
		w.damage(s)
	default:
		w.advance(time.Duration(1+r.IntN(3000)) * time.Millisecond)
	}
}

// change sets a key, removes it, or has it expire. Conditions may suppress it. Now and then there are many
// changes at once.
func (w *mapWorld) change(s *simMap) {
	r, times := w.random, 1
	if r.IntN(8) == 0 {
		times = 1 + r.IntN(12)
	}
	for range times {
		i := r.IntN(s.keys)
		p := &channel.Publication{Key: s.key(i)}
		exists, n := s.entries[p.Key] != nil, r.IntN(10)
		switch {
		case n < 3 && exists: // removed, or expired: then no tags are given
			if p.Removed = true; r.IntN(4) == 0 {
				p.Tags = s.tags(r, i)
			}
		case n < 3, n == 3 && exists: // there is nothing to remove, or it is set if it is new
			continue
		default:
			w.counter++
			p.Data, p.Tags = payload(r, w.counter), s.tags(r, i)
		}
		s.change(p, w.now, r.IntN(4) > 0)
		w.trace("%s %d: %s is changed, removed %v", s.name, s.top, p.Key, p.Removed)
	}
}

// damage is what happens to a map beside changes: it is cleared, or its stream is trimmed.
func (w *mapWorld) damage(s *simMap) {
	n := w.random.IntN(8)
	switch {
	case n < 2 && w.honest:
	case n < 2:
		s.recreate()
		for i := range s.ways {
			s.ways[i].suspect = true
		}
		w.trace("%s is cleared: %s", s.name, s.epoch)
	case n == 2:
		s.stream = nil
	case len(s.stream) > 1:
		s.stream = s.stream[w.random.IntN(len(s.stream)):]
	}
}

// crash is the last fault of a world, which is left to the checks.
func (w *mapWorld) crash(s *simMap) {
	n := w.random.IntN(6)
	if w.honest || n > 1 {
		return
	}
	top := s.top
	if n == 0 {
		s.recreate()
		for s.top < top {
			w.counter++
			s.change(&channel.Publication{Key: s.key(w.random.IntN(s.keys)), Data: payload(w.random, w.counter), Tags: s.tags(w.random, 0)}, w.now, true)
		}
	}
	s.crash()
	w.trace("%s crashes at %d of %s", s.name, s.top, s.epoch)
}

// blame fails a client that was told of a loss where there was none.
func (w *mapWorld) blame(c *mapClient) {
	if w.honest {
		c.fail("was told that it lost something")
	}
}

// client has one client do something.
func (w *mapWorld) client(c *mapClient) {
	r := w.random
	if c.connection == nil {
		c.connect(r.IntN(2) == 0)
		return
	}
	n := r.IntN(100)
	switch {
	case n < 4:
		w.trace("%s vanishes", c.connection.id)
		c.connection.env.s.Close(protocol.DisconnectConnectionClosed)
		c.lost()
		return
	case n < 7 && c.connection.conn.room < 0:
		c.connection.conn.room = r.IntN(300)
		return
	case n < 45 && c.connection.conn.room >= 0:
		c.connection.conn.room = -1
		c.connection.env.s.Flush()
		return
	case !c.connected:
		return
	}
	b := c.subs[r.IntN(len(c.subs))]
	switch {
	case b.next != nil && r.IntN(4) > 0:
		c.command(b.ask(b.next))
	case b.state == simOff:
		c.command(b.begin())
	case n < 55 || b.state == simLive && n < 62:
		cmds := []*protocol.Command{b.unsubscribe()}
		if r.IntN(3) == 0 {
			cmds = append(cmds, b.begin())
		}
		c.command(cmds...)
	}
}

// backend calls the server's API for some client.
func (w *mapWorld) backend() {
	r := w.random
	c := w.clients[r.IntN(len(w.clients))]
	if c.connection == nil || !c.connected {
		return
	}
	s := c.connection.env
	u := []protocol.Unsubscribe{protocol.UnsubscribeServer, {Code: 2502, Reason: "another"}}[r.IntN(2)]
	switch b := c.subs[r.IntN(len(c.subs))]; r.IntN(4) {
	case 0:
		w.trace("server disconnects %s", c.connection.id)
		s.s.Close(protocol.DisconnectForceReconnect)
	case 1:
		s.s.Send([]byte(`"hi"`))
	default:
		w.trace("server unsubscribes %s from %s", c.connection.id, b.s.name)
		s.s.ServerUnsubscribe(b.s.name, u)
	}
}

// read lets a client take what has arrived.
func (w *mapWorld) read(l *mapConnection) {
	for l.c.connection == l {
		replies := l.conn.replies(l.c.enc)
		if len(replies) == 0 {
			break
		}
		for _, r := range replies {
			if l.c.connection == l {
				l.c.receive(r)
			}
		}
	}
	if l.c.connection == l && l.conn.closed != nil {
		w.trace("%s closed %v", l.id, *l.conn.closed)
		if l.conn.closed.Code == protocol.DisconnectInsufficientState.Code {
			w.blame(l.c)
		}
		l.c.lost()
	}
}

// pause lets everything arrive, without checks: then no live subscription is behind what came to its node.
func (w *mapWorld) pause() {
	w.calm = true
	for _, c := range w.clients {
		w.wake(c)
	}
	w.settle()
	for _, c := range w.clients {
		for _, b := range c.subs {
			if b.behind() {
				b.fail("at %v, but %v came", b.at, b.way().latest)
			}
		}
	}
	w.calm = false
}

// comeToRest completes everything without further faults, and looks at what is left.
func (w *mapWorld) comeToRest() error {
	if w.random.IntN(3) == 0 {
		w.pause()
	}
	for _, s := range w.maps {
		w.crash(s)
	}
	w.calm = true
	for round := range 12 {
		for _, c := range w.clients {
			w.wake(c)
		}
		for _, s := range w.maps {
			for _, n := range w.nodes {
				for range 3 {
					w.check(s, n)
				}
			}
		}
		w.settle()
		for t := 0; t < 25 && round < 11; t += 5 {
			w.advance(5 * time.Second)
			w.turn()
		}
	}
	return w.verdict()
}

// wake makes a client do what it wants to.
func (w *mapWorld) wake(c *mapClient) {
	if c.connection == nil {
		c.connect(false)
		return
	}
	if c.connection.conn.room >= 0 {
		c.connection.conn.room = -1
		c.connection.env.s.Flush()
	}
	for _, b := range c.subs {
		switch {
		case !c.connected || c.connection == nil:
		case b.next != nil:
			c.command(b.ask(b.next))
		case b.state == simOff && b.leaving == 0:
			c.command(b.begin())
		}
	}
}

// settle works until nothing is left to do.
func (w *mapWorld) settle() {
	w.turn() // clients may have something to read
	for n := 0; w.busy(); n++ {
		if n > 100_000 {
			panic(violation("no end"))
		}
		w.work()
		for _, s := range w.maps {
			for _, n := range w.nodes {
				w.deliver(s, n)
			}
		}
		w.turn()
	}
}

func (w *mapWorld) busy() bool {
	for _, s := range w.maps {
		if len(s.ways[0].transit)+len(s.ways[1].transit) > 0 {
			return true
		}
	}
	for _, n := range w.nodes {
		for n.hub.Deliver(100) {
		}
	}
	return w.working()
}

// verdict says what is wrong in the end.
func (w *mapWorld) verdict() error {
	var problems []error
	for _, c := range w.clients {
		if len(c.waiting) > 0 {
			problems = append(problems, fmt.Errorf("%s waits for answers: %v", c.name, c.waiting))
		}
		for _, b := range c.subs {
			if problem := b.missing(); problem != "" {
				problems = append(problems, fmt.Errorf("%s: %s: %s", c.name, b.s.name, problem))
			}
		}
	}
	for _, s := range w.maps {
		n := len(w.clients)
		if routed := s.ways[0].routed + s.ways[1].routed; routed != n || len(s.present) != n || len(s.joined) != n {
			problems = append(problems, fmt.Errorf("%s: %d clients, but %d routed, %d present, %d joined", s.name, n, routed, len(s.present), len(s.joined)))
		}
	}
	if n := w.nodes[0].hub.Subscribers() + w.nodes[1].hub.Subscribers(); n != len(w.clients)*len(w.maps) {
		problems = append(problems, fmt.Errorf("%d in the hubs of %d", n, len(w.clients)*len(w.maps)))
	}
	return errors.Join(problems...)
}
