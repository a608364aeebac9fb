package session_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the first simulated world; a failure names the seed to replay")
	steps = flag.Int("steps", 0, "steps of the simulation; 0 for the usual number, 1 for one world")
)

// stepsPerWorld keeps a world small: a failure is replayed and read.
const stepsPerWorld = 2000

// TestNothingLostNothingTwice simulates nodes with random clients, a broker that
// loses, repeats and delays what it delivers, and an application that takes its
// time, all in virtual time. Whatever happens, a subscriber of a recoverable
// channel has the exact sequence in the end, or was told where it breaks; see
// simClient for what is judged on the way.
func TestNothingLostNothingTwice(t *testing.T) {
	total := *steps
	if total == 0 {
		total = usualSteps
	}
	var delivered, patches, bridges, recoveries, unrecovered int
	for done, n := 0, *seed; done < total; n++ {
		w := newWorld(n, nil)
		if err := w.run(); err != nil {
			var log []string
			_ = newWorld(n, &log).run()
			t.Fatalf("%v\nreplay with -seed=%d -steps=1\n%s", err, n, strings.Join(log[max(0, len(log)-80):], "\n"))
		}
		done += stepsPerWorld
		delivered, patches, bridges = delivered+w.delivered, patches+w.patches, bridges+w.bridges
		recoveries, unrecovered = recoveries+w.recoveries, unrecovered+w.unrecovered
	}
	t.Logf("%d steps, %d publications delivered, %d of them patches, %d across filtered ones, %d recoveries and %d failed ones",
		total, delivered, patches, bridges, recoveries, unrecovered)
	if *steps == 0 && (delivered == 0 || patches == 0 || bridges == 0 || recoveries == 0 || unrecovered == 0) {
		t.Error("the simulation does not reach what it is to test")
	}
}

// world is a node with its clients and a broker.
type world struct {
	scene
	hub     *hub.Hub
	pool    sendqueue.Pool
	cfg     session.Config
	streams []*stream
	clients []*simClient

	delivered, patches, recoveries, unrecovered int
	bridges                                     int // patches behind publications that a filter dropped
}

// connection is that of a client.
type connection struct {
	line
	c      *simClient
	reads  [][]read // by channel: what replies are to be judged by
	epochs []string // by channel: of the latest read
}

func newWorld(seed uint64, log *[]string) *world {
	w := &world{scene: newScene(seed, log)}
	r := w.random
	w.hub = hub.New(&w.pool.Arena)
	p := newPlayer()
	w.cfg = p.cfg
	w.cfg.QueueMaxSize = 1000 + r.IntN(20000)
	w.cfg.CommandLimit = 1 + r.IntN(6)
	w.cfg.RecoveryLimit = r.IntN(2) * (1 + r.IntN(10))
	for i := range 1 + r.IntN(3) {
		w.streams = append(w.streams, newStream(i, r))
	}
	for i := range 1 + r.IntN(5) {
		w.clients = append(w.clients, w.newClient(i))
	}
	return w
}

func (w *world) newClient(i int) *simClient {
	r := w.random
	c := &simClient{
		w: w, name: "client " + strconv.Itoa(i), enc: protocol.Encoding(r.IntN(2)), serverSide: r.IntN(4) == 0,
		flag: int64(r.IntN(2)), waiting: make(map[uint32]request),
	}
	c.oneWay = c.serverSide && r.IntN(2) == 0
	if r.IntN(4) == 0 {
		c.flag |= 2
	}
	for _, s := range w.streams {
		b := &simSub{c: c, ch: s, wanted: true}
		if c.oneWay {
			b.delta = r.IntN(2) == 0
		}
		if !c.serverSide {
			b.filtered, b.delta = r.IntN(3) == 0, r.IntN(2) == 0
		}
		c.subs = append(c.subs, b)
	}
	return c
}

func (w *world) newConnection(c *simClient) *connection {
	w.counter++
	l := &connection{
		line:  line{conn: &fakeConn{room: -1}, id: c.name + "/" + strconv.Itoa(w.counter)},
		c:     c,
		reads: make([][]read, len(w.streams)), epochs: make([]string, len(w.streams)),
	}
	l.env = &fakeEnv{id: l.id, now: &w.now, hub: w.hub, pool: &w.pool, random: w.random}
	l.execute = func(e effect.Effect) bool { return w.execute(l, e) }
	l.read = func() { w.read(l) }
	w.open(&l.line)
	info := transport.Info{Name: "sim", Framer: framers[c.enc]}
	if c.oneWay {
		info.Mode, info.DisconnectPush, l.conn.bare = transport.OneWay, true, true
	}
	l.env.s.Init(l.env, &w.cfg, l.conn, connkind.New(&info))
	return l
}

// run lives the world through and to its end.
func (w *world) run() error {
	return w.simulate(func() error {
		for range stepsPerWorld {
			w.step()
			w.turn()
		}
		return w.comeToRest()
	})
}

// comeToRest completes everything without further faults, and looks at what
// is left.
func (w *world) comeToRest() error {
	for _, s := range w.streams {
		w.crash(s)
	}
	w.calm = true
	for round := range 12 {
		for _, c := range w.clients {
			w.wake(c)
		}
		for _, s := range w.streams {
			for range 3 {
				w.check(s)
			}
		}
		for w.busy() || w.hub.Deliver(100) {
			w.work()
			for _, s := range w.streams {
				w.deliver(s)
			}
			w.turn()
		}
		for t := 0; t < 25 && round < 11; t += 5 {
			w.advance(5 * time.Second)
			w.turn()
		}
	}
	var problems []error
	live := make(map[string]int)
	for _, c := range w.clients {
		if len(c.waiting) > 0 {
			problems = append(problems, fmt.Errorf("%s waits for answers: %v", c.name, c.waiting))
		}
		for _, b := range c.subs {
			if problem := b.missing(); problem != "" {
				problems = append(problems, fmt.Errorf("%s: %s: %s", c.name, b.ch.name, problem))
			}
			if b.state == simLive {
				live[b.ch.name]++
			}
		}
	}
	for _, s := range w.streams {
		if n := live[s.name]; s.routed != n || len(s.present) != n || len(s.joined) != n {
			problems = append(problems, fmt.Errorf("%s: %d subscribers, but %d routed, %d present, %d joined",
				s.name, n, s.routed, len(s.present), len(s.joined)))
		}
	}
	if n := w.hub.Subscribers(); n != live["ch0"]+live["ch1"]+live["ch2"] {
		problems = append(problems, fmt.Errorf("%d in the hub of %v", n, live))
	}
	return errors.Join(problems...)
}

// wake makes a client do what it wants to.
func (w *world) wake(c *simClient) {
	if c.connection == nil {
		c.connect(false)
		return
	}
	if c.connection.conn.room >= 0 {
		c.connection.conn.room = -1
		c.connection.env.s.Flush()
	}
	if !c.connected || c.serverSide {
		return
	}
	for _, b := range c.subs {
		b.wanted = true
		if b.state == simOff && b.leaving == 0 && c.connection != nil {
			c.command(b.subscribe())
		}
	}
}

func (w *world) busy() bool {
	for _, s := range w.streams {
		if len(s.transit) > 0 {
			return true
		}
	}
	return w.working()
}

// read lets a client take what has arrived.
func (w *world) read(l *connection) {
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
		l.c.told(*l.conn.closed)
		if l.conn.closed.Code == protocol.DisconnectInsufficientState.Code && !l.lost() {
			w.blame(l.c)
		}
		l.c.lost()
	}
}

// lost tells whether the server read a stream for a subscription in place of another one, and something was missing.
func (l *connection) lost() bool {
	return slices.ContainsFunc(l.reads[:], func(q []read) bool {
		return slices.ContainsFunc(q, func(r read) bool { return !r.recovered })
	})
}

// blame fails a client that was told of a loss where there was none.
func (w *world) blame(c *simClient) {
	if w.honest {
		c.fail("was told that it lost something")
	}
}

func (l *connection) popRead(s *stream) read {
	q := l.reads[s.index]
	if len(q) == 0 {
		l.c.fail("%s: a subscribe that nothing was read for", s.name)
	}
	l.reads[s.index] = q[1:]
	if q[0].recovered {
		l.c.w.recoveries++
	} else {
		l.c.w.unrecovered++
	}
	return q[0]
}

// step does one random thing.
func (w *world) step() {
	r := w.random
	switch n := r.IntN(100); {
	case n < 24:
		w.publish()
	case n < 50:
		w.deliver(w.streams[r.IntN(len(w.streams))])
	case n < 75:
		w.work()
	case n < 88:
		w.client(w.clients[r.IntN(len(w.clients))])
	case n < 91:
		w.backend()
	case n < 95:
		w.check(w.streams[r.IntN(len(w.streams))])
	case n < 97:
		w.damage(w.streams[r.IntN(len(w.streams))])
	default:
		w.advance(time.Duration(1+r.IntN(4000)) * time.Millisecond)
	}
}

func (w *world) publish() {
	r, s := w.random, w.streams[w.random.IntN(len(w.streams))]
	var tags map[string]string
	if n := r.IntN(3); n > 0 {
		tags = map[string]string{"t": []string{"x", "y"}[n-1]}
	}
	w.counter++
	s.publish(payload(r, w.counter), tags, w.now, r.IntN(12) > 0, r.IntN(4) > 0)
	w.trace("published %s %d", s.name, s.top)
}

// deliver hands what the broker sent to the node. It may lose or repeat one.
func (w *world) deliver(s *stream) {
	for n := 1 + w.random.IntN(3); n > 0 && len(s.transit) > 0; n-- {
		m := s.transit[0]
		fate := w.random.IntN(60)
		switch {
		case w.calm || w.honest || fate > 1:
			s.transit = s.transit[1:]
		case fate == 1: // and once more later
		default:
			w.trace("lost %s %d", s.name, m.Pub.Offset)
			s.transit = s.transit[1:]
			continue
		}
		w.trace("deliver %s %d %s", s.name, m.Pub.Offset, m.Epoch)
		w.hub.Publish(m)
	}
	if w.calm || w.random.IntN(3) > 0 {
		w.hub.Deliver(1 + w.random.IntN(8))
	}
}

// damage is what happens to a stream's history.
func (w *world) damage(s *stream) {
	n := w.random.IntN(8)
	switch {
	case n == 0 && w.honest:
	case n == 0:
		s.recreate()
		w.trace("%s is recreated: %s", s.name, s.epoch)
	case n < 3:
		s.entries = nil // the TTL has passed, or the history was removed
	default:
		if len(s.entries) > 1 {
			s.entries = s.entries[w.random.IntN(len(s.entries)):]
		}
	}
}

// crash is the last fault of a world: what is on its way is lost, and at times the
// stream is made anew and gets as far as the old one was. Nothing follows that would
// show it, so it is left to the checks.
func (w *world) crash(s *stream) {
	n := w.random.IntN(6)
	if w.honest || n > 1 {
		return
	}
	top := s.top
	if n == 0 {
		s.recreate()
		for s.top < top {
			w.counter++
			s.publish(payload(w.random, w.counter), nil, w.now, true, true)
		}
	}
	s.transit = nil
	w.trace("%s crashes at %d of %s", s.name, top, s.epoch)
}

// client has one client do something.
func (w *world) client(c *simClient) {
	r := w.random
	if c.connection == nil {
		c.connect(r.IntN(2) == 0)
		return
	}
	n := r.IntN(100)
	switch {
	case n < 5:
		w.trace("%s vanishes", c.connection.id)
		c.connection.env.s.Close(protocol.DisconnectConnectionClosed)
		c.lost()
		return
	case n < 15 && c.connection.conn.room < 0:
		c.connection.conn.room = r.IntN(300)
		return
	case n < 45 && c.connection.conn.room >= 0:
		c.connection.conn.room = -1
		c.connection.env.s.Flush()
		return
	case !c.connected || c.oneWay:
		return
	}
	b := c.subs[r.IntN(len(c.subs))]
	var cmds []*protocol.Command
	switch {
	case n < 60 && b.state == simLive && !c.serverSide:
		w.trace("%s unsubscribes from %s", c.connection.id, b.ch.name)
		cmds = append(cmds, b.unsubscribe())
		if b.leaving > 0 && r.IntN(3) > 0 {
			break
		}
		fallthrough
	case n < 60 && b.state == simOff && !c.serverSide:
		w.trace("%s subscribes to %s from %d %s", c.connection.id, b.ch.name, b.offset, b.epoch)
		b.wanted = true
		cmds = append(cmds, b.subscribe())
	case n < 70:
		cmds = append(cmds, c.ask("rpc", nil, &protocol.Command{RPC: &protocol.RPCRequest{Method: "m"}}))
		fallthrough
	case n < 80:
		cmds = append(cmds, c.ask("publish", nil, &protocol.Command{
			Publish: &protocol.PublishRequest{Channel: b.ch.name, Data: []byte("1")}}))
	case n < 85:
		cmds = append(cmds, c.ask("history", nil, &protocol.Command{History: &protocol.HistoryRequest{Channel: b.ch.name, Limit: -1}}))
	default:
		cmds = append(cmds, c.ask("presence", nil, &protocol.Command{Presence: &protocol.PresenceRequest{Channel: b.ch.name}}))
	}
	c.command(cmds...)
}

// backend calls the server's API for some client.
func (w *world) backend() {
	r := w.random
	c := w.clients[r.IntN(len(w.clients))]
	if c.connection == nil || !c.connected {
		return
	}
	b := c.subs[r.IntN(len(c.subs))]
	switch r.IntN(6) {
	case 0:
		w.trace("server disconnects %s", c.connection.id)
		c.connection.env.s.Close(protocol.DisconnectForceReconnect)
	case 1:
		w.trace("server unsubscribes %s from %s", c.connection.id, b.ch.name)
		c.connection.env.s.ServerUnsubscribe(b.ch.name, protocol.UnsubscribeServer)
	case 2:
		if !w.honest {
			c.connection.env.s.ServerUnsubscribe(b.ch.name, protocol.UnsubscribeInsufficientState)
		}
	case 3:
		c.connection.env.s.Send([]byte(`"hi"`))
	default:
		if c.serverSide && b.state == simLive && !b.ch.cache {
			w.trace("server subscribes %s to %s", c.connection.id, b.ch.name)
			o := b.options()
			if err := c.connection.env.s.ServerSubscribe(b.ch.name, &o); err != nil {
				c.fail("%v", err)
			}
		}
	}
}
