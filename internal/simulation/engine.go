package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

var (
	errCut     = errors.New("the connection to the engine is lost")
	errTimeout = errors.New("the engine does not answer")
	errDown    = errors.New("the engine is down")
)

// engineServer is the server of an engine, as a run uses it. Steps that an engine does not know do nothing.
type engineServer interface {
	connect(life string, moment func(name string)) nodeLink // of a new node; moment is told of its calls and events
	halt()
	resume(n int) // n chooses how
	replicate()
	failover()
	fault(l nodeLink, st step) // of one engine alone
	heal()                     // ends all faults
	sweep()                    // removes expired entries, again and again
	rest(resting bool)         // whether nothing expires
}

// nodeLink is a node's end of an engine, and its network to the server.
type nodeLink interface {
	engine() gyro.Engine
	fate(key string) *rand.Rand
	sever()
	mend()
	kill() // the node has crashed
}

// newEngine returns the server of the plan's engine.
func newEngine(s *scheduler, l *log, p *plan, b *book) engineServer {
	if p.Engine == onRedis {
		return newRedisServer(s, l, p, b)
	}
	n := p.Network
	e := &engine{
		scheduler: s, log: l, book: b, seed: p.Seed, store: newStore(), lag: n.EngineLag, jitter: n.EngineJitter,
		timeout: 3 * time.Second, presenceTTL: 11 * time.Second, loss: n.Loss, double: n.Double, mute: n.Mute, fail: n.Fail,
	}
	e.replica = e.store.clone()
	return e
}

// engine is the server of the reference engine: it keeps streams and presence, and passes events and control messages
// on to the nodes.
type engine struct {
	*scheduler
	log     *log
	book    *book
	seed    uint64
	store   *store
	replica *store // older; failover makes it the store
	links   []*link
	down    bool
	resting bool
	back    time.Duration // when the data went back last

	lag, jitter time.Duration
	timeout     time.Duration // of calls
	presenceTTL time.Duration
	// Chances, of 1,000: an event for a node is lost, comes twice; a call is executed and not answered, or fails.
	loss, double, mute, fail int
}

// link is a node's end of the engine: its broker, presence manager and controller.
type link struct {
	e      *engine
	name   string
	moment func(name string) // is told of each call and event
	ended  chan struct{}
	events chan func() // delivered by a goroutine of the link

	mu      sync.Mutex
	handler broker.EventHandler
	control func([]byte)
	node    string
	pending map[*pending]bool
	closed  bool

	// Only the scheduler uses these.
	cut        bool
	changed    time.Duration   // cut or mended
	dead       bool            // of a node that crashed
	subscribed map[string]bool // by the server
	wanted     map[string]bool // by the node
	eventAt    time.Duration
	requestAt  time.Duration
	once       sync.Once
}

type pending struct {
	key  string
	done chan error // has room for one
}

func (e *engine) halt()                { e.down = true }
func (e *engine) resume(int)           { e.down = false }
func (e *engine) rest(resting bool)    { e.resting = resting }
func (e *engine) replicate()           { e.replica = e.store.clone() }
func (e *engine) fault(nodeLink, step) {}
func (e *engine) heal()                { e.down, e.loss, e.double, e.mute, e.fail = false, 0, 0, 0, 0 }

func (l *link) engine() gyro.Engine { return l }

func (l *link) kill() {
	l.sever()
	l.dead = true
}

func (e *engine) connect(name string, moment func(string)) nodeLink {
	l := &link{
		e: e, name: name, moment: moment,
		ended: make(chan struct{}), events: make(chan func(), 1<<10), pending: map[*pending]bool{}, subscribed: map[string]bool{}, wanted: map[string]bool{},
	}
	e.links = append(e.links, l)
	return l
}

func (l *link) pace(r *rand.Rand) time.Duration {
	return l.e.lag + time.Duration(r.Int64N(int64(l.e.jitter)+1))
}

// fate returns the source of chance of one thing that happens to the link. It does not depend on other things that
// happen at the same moment, because their order may differ: equal things have equal fates then.
func (l *link) fate(key string) *rand.Rand {
	return stream(l.e.seed, l.name+" "+key+" "+strconv.FormatInt(int64(l.e.now()), 10))
}

// call has the server do something, and waits for the answer. key tells calls apart that come at one moment.
func (l *link) call(ctx context.Context, key string, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errors.New("the engine is closed")
	}
	l.mu.Unlock()
	p := &pending{key: l.name + " " + key, done: make(chan error, 1)}
	l.e.tell(p.key, func() { l.request(p, key, do) })
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return errCut
	}
}

// request is on the scheduler: the call leaves the node.
func (l *link) request(p *pending, key string, do func() error) {
	if l.cut {
		if !l.dead {
			l.e.log.add(l.name, "engine? %s, without a connection", key)
		}
		l.e.after(0, p.key, func() { p.done <- errCut })
		return
	}
	l.pending[p] = true
	l.e.after(l.e.timeout, p.key, func() { l.answer(p, errTimeout) })
	kind, _, _ := strings.Cut(key, " ")
	l.moment("engine " + kind)
	l.e.log.add(l.name, "engine? %s", key)
	fate := l.fate(key)
	at := max(l.e.now()+l.pace(fate), l.requestAt+1) // a connection keeps the order of its calls
	l.requestAt = at
	chance := fate.IntN(1000)
	l.e.after(at-l.e.now(), p.key, func() {
		if l.cut || !l.pending[p] {
			return
		}
		var err error
		switch {
		case l.e.down:
			err = errDown
		case chance < l.e.fail:
			err = errDown
			l.e.log.add(l.name, "engine: %s fails", key)
		default:
			err = do()
			l.e.log.add(l.name, "engine: %s", key)
		}
		if chance >= 1000-l.e.mute {
			l.e.log.add(l.name, "engine: %s gets no answer", key)
			return
		}
		l.e.after(l.pace(fate), p.key, func() {
			l.answer(p, err)
		})
	})
}

// answer ends a call, unless it has ended.
func (l *link) answer(p *pending, err error) {
	if l.pending[p] {
		delete(l.pending, p)
		p.done <- err
	}
}

// sever breaks the connection of a node: calls fail, executed or not, and events are lost.
func (l *link) sever() {
	if l.cut {
		return
	}
	l.cut, l.changed = true, l.e.now()
	l.e.log.add(l.name, "engine: connection lost")
	all := slices.SortedFunc(maps.Keys(l.pending), func(a, b *pending) int { return cmp.Compare(a.key, b.key) })
	for _, p := range all { // one after the other, as the order matters to the node
		l.e.after(0, p.key, func() { l.answer(p, errCut) })
	}
	clear(l.subscribed)
}

// mend connects a node again. Its engine subscribes to the channels anew, and tells the node of the loss.
func (l *link) mend() {
	if !l.cut || l.dead {
		return
	}
	l.cut, l.changed = false, l.e.now()
	for ch := range l.wanted {
		l.subscribed[ch] = true
	}
	l.e.log.add(l.name, "engine: connected again")
	l.event(func(h broker.EventHandler) { h.HandleLoss(func(string) bool { return true }) })
}

// event delivers an event to the node, behind the events before it.
func (l *link) event(f func(broker.EventHandler)) {
	at := max(l.e.now()+l.pace(l.fate("event")), l.eventAt)
	l.eventAt = at
	l.moment("event for a node")
	l.e.after(at-l.e.now(), l.name+" event", func() {
		if !l.cut {
			l.hand(func() { f(l.handler) })
		}
	})
}

// hand gives an event to the node, unless the link has ended.
func (l *link) hand(f func()) {
	select {
	case l.events <- f:
	case <-l.ended:
	}
}

// deliver runs until the link ends.
func (l *link) deliver() {
	for {
		select {
		case f := <-l.events:
			f()
		case <-l.ended:
			return
		}
	}
}

// publish sends an event to all nodes that are subscribed to a channel. Some never get it, and some get a publication of a
// stream twice.
func (e *engine) publish(ch string, twice bool, f func(broker.EventHandler)) {
	for _, l := range e.links {
		if !l.subscribed[ch] || l.cut {
			continue
		}
		chance := l.fate("chance").IntN(1000)
		if chance < e.loss {
			e.log.add(l.name, "engine: event of %s is lost", ch)
			continue
		}
		l.event(f)
		if twice && chance >= 1000-e.double {
			e.log.add(l.name, "engine: event of %s comes twice", ch)
			l.event(f)
		}
	}
}

// failover makes the replica the store. Streams that have lost something get another epoch, as engines promise.
func (e *engine) failover() {
	lost := map[string]bool{}
	for ch, st := range e.store.streams {
		old := e.replica.streams[ch]
		if old == nil {
			lost[ch] = true
		} else if old.epoch != st.epoch || old.top != st.top {
			lost[ch] = true
			delete(e.replica.streams, ch)
		}
	}
	e.back = e.now()
	e.store.returned(e.replica, lost)
	e.store = e.replica
	e.replica = e.store.clone()
	e.log.add("engine", "failover: %d streams lost something", len(lost))
	for _, l := range e.links {
		l.event(func(h broker.EventHandler) { h.HandleLoss(func(ch string) bool { return lost[ch] }) })
	}
}

// Broker implements gyro.Engine.
func (l *link) Broker() broker.Broker { return l }

// Describe implements broker.Engine.
func (l *link) Describe() broker.Traits {
	return broker.Traits{Name: "simulated", History: true, Idempotency: true, Versions: true, Delta: true, Maps: (*keeper)(l), Presence: (*presence)(l), Control: l}
}

// Run implements broker.Broker.
func (l *link) Run(h broker.EventHandler) error {
	l.handler = h
	go l.deliver()
	return nil
}

// Close implements broker.Broker.
func (l *link) Close(context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Subscribe implements broker.Broker.
func (l *link) Subscribe(ctx context.Context, channels ...string) error {
	return l.call(ctx, fmt.Sprint("subscribe ", channels), func() error {
		for _, ch := range channels {
			l.subscribed[ch], l.wanted[ch] = true, true
		}
		return nil
	})
}

// Unsubscribe implements broker.Broker.
func (l *link) Unsubscribe(ctx context.Context, channels ...string) error {
	return l.call(ctx, fmt.Sprint("unsubscribe ", channels), func() error {
		for _, ch := range channels {
			delete(l.subscribed, ch)
			delete(l.wanted, ch)
		}
		return nil
	})
}

// Publish implements broker.Broker.
func (l *link) Publish(ctx context.Context, ch string, pub *channel.Publication, o broker.PublishOptions) (res broker.PublishResult, err error) {
	err = l.call(ctx, fmt.Sprintf("publish %s %s", ch, pub.Data), func() error {
		if pub.Time == 0 {
			pub.Time = time.Now().UnixMilli()
		}
		var event *broker.PublicationEvent
		copied := *pub
		l.e.book.done(ch, string(pub.Data))
		if res, event = l.e.store.publish(l.e.now(), ch, &copied, o); event != nil {
			l.e.publish(ch, event.Epoch != "", func(h broker.EventHandler) { h.HandlePublication(ch, *event) })
		}
		return nil
	})
	return res, err
}

// PublishJoin implements broker.Broker.
func (l *link) PublishJoin(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return l.call(ctx, "join "+ch+" "+info.Client, func() error {
		l.e.publish(ch, false, func(h broker.EventHandler) { h.HandleJoin(ch, info) })
		return nil
	})
}

// PublishLeave implements broker.Broker.
func (l *link) PublishLeave(ctx context.Context, ch string, info *channel.ClientInfo) error {
	return l.call(ctx, "leave "+ch+" "+info.Client, func() error {
		l.e.publish(ch, false, func(h broker.EventHandler) { h.HandleLeave(ch, info) })
		return nil
	})
}

// History implements broker.Broker.
func (l *link) History(ctx context.Context, ch string, f broker.HistoryFilter) (h broker.History, err error) {
	err = l.call(ctx, historyKey(ch, f), func() error {
		h = l.e.store.history(l.e.now(), ch, f)
		return nil
	})
	return h, err
}

func historyKey(ch string, f broker.HistoryFilter) string {
	key := fmt.Sprintf("history %s limit %d", ch, f.Limit)
	if f.Since != nil {
		key += fmt.Sprintf(" since %d", f.Since.Offset)
	}
	return key
}

// RemoveHistory implements broker.Broker.
func (l *link) RemoveHistory(ctx context.Context, ch string) error {
	return l.call(ctx, "remove "+ch, func() error {
		if st := l.e.store.streams[ch]; st != nil {
			st.pubs = nil
		}
		return nil
	})
}

// RunControl implements broker.Controller.
func (l *link) RunControl(node string, handle func([]byte)) error {
	l.node, l.control = node, handle
	return nil
}

// PublishControl implements broker.Controller.
func (l *link) PublishControl(ctx context.Context, node string, data []byte) error {
	data = append([]byte(nil), data...)
	return l.call(ctx, controlKey(node, data), func() error {
		found := node == ""
		for _, o := range l.e.links {
			if o.control == nil || o.cut || node != "" && o.node != node {
				continue
			}
			found = true
			l.e.control(o, node, data)
		}
		if !found {
			return broker.ErrNoReceiver
		}
		return nil
	})
}

// reason of a command of the server API.
var reason = regexp.MustCompile(`order \d+`)

func controlKey(node string, data []byte) string {
	return fmt.Sprintf("control to %q, %d bytes %s", node, len(data), reason.Find(data))
}

// control sends a control message to a node, which may get it never, twice, and late.
func (e *engine) control(to *link, node string, data []byte) {
	fate := to.fate("control " + node)
	chance, copies := fate.IntN(1000), 1
	switch {
	case chance < e.loss:
		e.log.add(to.name, "engine: a control message is lost")
		return
	case chance >= 1000-e.double:
		copies = 2
	}
	for range copies {
		e.after(to.pace(fate), to.name+" control", func() {
			if !to.cut {
				to.hand(func() { to.control(append([]byte(nil), data...)) })
			}
		})
	}
}

// presence is the presence manager of a link.
type presence link

// Describe implements broker.Engine.
func (p *presence) Describe() broker.Traits { return (*link)(p).Describe() }

// Add implements broker.PresenceManager.
func (p *presence) Add(ctx context.Context, ch string, info *channel.ClientInfo) error {
	l := (*link)(p)
	return l.call(ctx, "present "+ch+" "+info.Client, func() error {
		l.e.store.add(l.e.now(), l.e.presenceTTL, ch, info)
		return nil
	})
}

// Remove implements broker.PresenceManager.
func (p *presence) Remove(ctx context.Context, ch, client, _ string) error {
	l := (*link)(p)
	return l.call(ctx, "absent "+ch+" "+client, func() error {
		l.e.store.remove(ch, client)
		return nil
	})
}

// Presence implements broker.PresenceManager.
func (p *presence) Presence(ctx context.Context, ch string) (found map[string]*channel.ClientInfo, err error) {
	l := (*link)(p)
	err = l.call(ctx, "presence "+ch, func() error {
		found = l.e.store.present(l.e.now(), ch)
		return nil
	})
	return found, err
}

// Stats implements broker.PresenceManager.
func (p *presence) Stats(ctx context.Context, ch string) (broker.PresenceStats, error) {
	found, err := p.Presence(ctx, ch)
	users := map[string]bool{}
	for _, info := range found {
		users[info.User] = true
	}
	return broker.PresenceStats{Clients: len(found), Users: len(users)}, err
}
