package simulation

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/protocol"
)

const (
	// recovery is how long nodes and clients may need after the last fault. Behind it is the calm phase.
	recovery = 12 * time.Second
	// forgetting is when nodes have removed the presence of clients that went before. It is less than the time to live.
	forgetting = 4 * time.Second
	// promptly is the most that a call of the server API takes in the calm phase, reach the most until its effect has
	// come to the clients.
	promptly = 500 * time.Millisecond
	reach    = time.Second
	// deeds is how long clients, backends and operators act in the calm phase. The rest is for the effects.
	deeds = 2 * time.Second
)

// calm is the book of the calm phase: nothing fails, so each deed has its whole effect at once, and nothing ends without
// a deed.
type calm struct {
	r      *run
	on     bool
	strict atomic.Bool // on, for goroutines of nodes
	since  time.Duration
	// The client of a user connects; a subscription of a user is wanted and not there.
	connecting map[string]bool
	seeking    map[[2]string]bool
	// ends has when a deed made the connection of a user end, or a subscription.
	ends map[[2]string]time.Duration
	// By channel and client ID: how often the client came and went. unclear are those that did just before.
	came, went map[[2]string]int
	unclear    map[[2]string]bool
	changed    map[string]time.Duration // by channel
	flits      map[[2]string]bool       // by channel and user: unsubscribed while it subscribed
	told       map[[3]string]*attendance
	got        map[[3]string]bool // by user, channel, text
}

// attendance is how often a subscriber was told that a client came and went.
type attendance struct{ joins, leaves int }

func newCalm(r *run) *calm {
	return &calm{
		r: r, connecting: map[string]bool{}, seeking: map[[2]string]bool{}, ends: map[[2]string]time.Duration{},
		came: map[[2]string]int{}, went: map[[2]string]int{}, unclear: map[[2]string]bool{}, changed: map[string]time.Duration{},
		flits: map[[2]string]bool{}, told: map[[3]string]*attendance{}, got: map[[3]string]bool{},
	}
}

// rude tells that a client has broken rules, so that anything may end it.
func (c *calm) rude(user string) bool {
	m, is := c.r.named(user).(*model)
	return is && m.rude
}

// mayEnd says that a deed ends the connection of a user now; with a channel, a subscription.
func (c *calm) mayEnd(user, ch string) { c.ends[[2]string{user, ch}] = c.r.now() }

// ended checks that a deed is the cause of an end.
func (c *calm) ended(user, ch string, reason client.Reason) {
	if !c.on || c.rude(user) {
		return
	}
	for _, of := range []string{ch, ""} {
		if at, ok := c.ends[[2]string{user, of}]; ok && c.r.now()-at < reach {
			return
		}
	}
	c.r.fail("%s: %q ends in the calm phase: %d %s", user, ch, reason.Code, reason.Text)
}

// heard takes an event of a client.
func (c *calm) heard(user string, e client.Event) {
	switch e := e.(type) {
	case client.ConnectedEvent:
		c.connecting[user] = false
	case client.ConnectingEvent:
		c.connecting[user] = true
		c.ended(user, "", e.Reason)
	case client.DisconnectedEvent:
		c.connecting[user] = false
		c.ended(user, "", e.Reason)
	case client.SubscribingEvent:
		c.seeking[[2]string{user, e.Channel}] = true
		c.ended(user, e.Channel, e.Reason)
	case client.UnsubscribedEvent:
		c.seeking[[2]string{user, e.Channel}] = false
		c.ended(user, e.Channel, e.Reason)
	case client.SubscribedEvent:
		c.seeking[[2]string{user, e.Channel}] = false
		c.recovers(user, e)
	case client.ErrorEvent:
		if c.on && !c.rude(user) && e.Code != protocol.ErrorTokenExpired.Code && (kindOf(e.Channel).changes == nil || e.Code != protocol.ErrorUnrecoverablePosition.Code) {
			c.r.fail("%s: the error %d in %q in the calm phase", user, e.Code, e.Channel)
		}
	case client.PublicationEvent:
		if c.on {
			c.got[[3]string{user, e.Channel, textOf(e.Publication)}] = true
		}
	case client.JoinEvent:
		if c.on {
			c.attends(user, e.Channel, e.Info.Client).joins++
		}
	case client.LeaveEvent:
		if c.on {
			c.attends(user, e.Channel, e.Info.Client).leaves++
		}
	}
}

func textOf(p client.Publication) string {
	if p.Key != "" {
		return changeText(p.Key, string(p.Data), p.Removed)
	}
	return string(p.Data)
}

// recovers checks that a client that was away for a moment loses nothing.
func (c *calm) recovers(user string, e client.SubscribedEvent) {
	k := kindOf(e.Channel)
	keeps := k.options.Recoverable && k.sequence == gapless && k.changes == nil && historyOf(e.Channel).HistoryTTL >= time.Minute
	if !c.on || !keeps || c.rude(user) {
		return
	}
	s := c.r.book.sub(user, e.Channel)
	if _, reloaded := c.r.editions[e.Channel]; reloaded && c.r.filtered(user, e.Channel) {
		return // what the filter left out may have been published with a short history
	}
	at, away := e.Position, c.r.now()-s.until
	if s.fresh || s.until == 0 || away > 2*deeds || k.server && s.id == c.r.book.clients[user] { // the backend subscribes without a position
		return
	}
	if missed := at.Offset - s.at.Offset; !e.WasRecovering || !e.Recovered && (at.Epoch != s.at.Epoch || missed < 6) {
		c.r.fail("%s: is away from %s for %v at %d of %s, and does not recover at %d of %s", user, e.Channel, away, s.at.Offset, s.at.Epoch, at.Offset, at.Epoch)
	}
}

func (c *calm) attends(user, ch, id string) *attendance {
	k := [3]string{user, ch, id}
	if c.told[k] == nil {
		c.told[k] = new(attendance)
	}
	return c.told[k]
}

// comes and goes: a client with an ID is subscribed from now on, or until now.
func (c *calm) comes(ch, id string) { c.moves(c.came, ch, id) }
func (c *calm) goes(ch, id string)  { c.moves(c.went, ch, id) }

func (c *calm) moves(list map[[2]string]int, ch, id string) {
	k := [2]string{ch, id}
	if c.changed[ch] = c.r.now(); c.on {
		list[k]++
	} else if c.r.now() > chaos+recovery-reach {
		c.unclear[k] = true
	}
}

// attended checks that all who asked were told once of each client that came or went.
func (c *calm) attended() {
	for k, s := range c.r.book.subs {
		user, ch := k[0], k[1]
		if o := kindOf(ch).options; !s.active || s.since > c.since-reach || !o.EmitJoinLeave || !o.PushJoinLeave || c.rude(user) {
			continue
		}
		want := map[string]attendance{}
		for of, n := range c.came {
			if of[0] == ch {
				want[of[1]] = attendance{n, 0}
			}
		}
		for of, n := range c.went {
			if of[0] == ch {
				want[of[1]] = attendance{want[of[1]].joins, n}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(want)) {
			w, is := want[id], *c.attends(user, ch, id)
			of := c.owner(id)
			if c.flits[[2]string{ch, of}] && is.joins == w.joins+1 { // it came and went before it knew
				is = attendance{is.joins - 1, is.leaves - 1}
			}
			if is != w && !c.unclear[[2]string{ch, id}] && !c.rude(of) {
				c.r.fail("%s: is told of %d joins and %d leaves of %s in %s, not %d and %d", user, is.joins, is.leaves, id, ch, w.joins, w.leaves)
			}
		}
	}
}

// owner returns the user of a client.
func (c *calm) owner(id string) string {
	c.r.application.mu.Lock()
	defer c.r.application.mu.Unlock()
	if s := c.r.application.clients[id]; s != nil {
		return s.user
	}
	return ""
}

// there checks that all clients are connected that want to be, with all subscriptions that they want, and that the
// application and the nodes know of them.
func (c *calm) there() {
	for _, u := range c.r.users {
		user := u.user().name
		if c.rude(user) || u.user().closed {
			continue
		}
		if c.connecting[user] {
			c.r.fail("%s: is not connected in the calm phase", user)
		}
		id := c.r.book.clients[user]
		if id == "" {
			continue
		}
		c.r.application.mu.Lock()
		s := c.r.application.clients[id]
		c.r.application.mu.Unlock()
		if s == nil || !s.connected || s.disconnected {
			c.r.fail("%s: is connected, and the application does not know it", user)
			continue
		}
		for _, ch := range c.r.plan.Names {
			n := s.allowed[ch]
			if kindOf(ch).server {
				n = c.r.began[id][ch]
			}
			switch {
			case c.seeking[[2]string{user, ch}]:
				c.r.fail("%s: is not subscribed to %s in the calm phase", user, ch)
			case c.r.book.sub(user, ch).active && s.ended[ch] >= n:
				c.r.fail("%s: is subscribed to %s for the %d. time, and Unsubscribed was called %d times", user, ch, n, s.ended[ch])
			}
		}
	}
	for _, m := range c.r.machines {
		c.counts(m)
	}
}

// counts compares what a node tells of itself with the connections that there are.
func (c *calm) counts(m *machine) {
	subs, conns := 0, c.r.net.of(m)
	for _, o := range conns {
		if c.rude(o.user) {
			return
		}
		for k, s := range c.r.book.subs {
			if k[0] == o.user && s.active {
				subs++
			}
		}
	}
	go func() {
		nodes, err := m.node.Cluster().Nodes(context.Background())
		c.r.tell("counts "+m.name, func() {
			if err != nil {
				c.r.fail("%s: it tells nothing about itself: %v", m.name, err)
			} else if n := nodes[0]; n.NumClients != len(conns) || n.NumSubs != subs {
				c.r.fail("%s: has %d clients with %d subscriptions, and tells of %d with %d", m.name, len(conns), subs, n.NumClients, n.NumSubs)
			}
		})
	}()
}

// called checks a call that began in the calm phase.
func (c *calm) called(what string, began time.Duration, err error) {
	if c.on && began >= c.since && (err != nil || c.r.now()-began > promptly) {
		c.r.fail("%s took %v in the calm phase: %v", what, c.r.now()-began, err)
	}
}

// soon is when a command has reached the application.
func (c *calm) soon() time.Duration {
	if c.on {
		return reach
	}
	return soon
}

// published is a publication, or a change of a map, that is acknowledged: those who were subscribed when it began get it.
func (c *calm) published(ch, text string, began time.Duration) {
	if !c.on || began < c.since {
		return
	}
	since := map[string]time.Duration{}
	for k, s := range c.r.book.subs {
		if k[1] == ch && s.active && s.since < began && !c.rude(k[0]) {
			since[k[0]] = s.since
		}
	}
	c.r.after(reach, "reach "+text, func() {
		for _, user := range slices.Sorted(maps.Keys(since)) {
			if s := c.r.book.sub(user, ch); s.active && s.since == since[user] && !c.has(s, user, ch, text) {
				c.r.fail("%s: has not got %s of %s after %v", user, text, ch, c.r.now()-began)
			}
		}
	})
}

// has tells that a subscriber has a publication, or need not have it.
func (c *calm) has(s *subscriptionBook, user, ch, text string) bool {
	switch {
	case c.got[[3]string{user, ch, text}]:
		return true
	case c.r.filtered(user, ch):
		return !isRed(text)
	case passes(text), kindOf(ch).sequence == unnumbered && kindOf(ch).changes == nil:
		return digit(ch)%4 == 3 // batches with the latest publication alone
	}
	for _, at := range c.r.book.channel(ch).placed[text] {
		if kindOf(ch).sequence == rising && at.Epoch == s.at.Epoch && at.Offset < s.at.Offset {
			return true
		}
	}
	return false
}

// end ends the calm phase.
func (c *calm) end() {
	c.there()
	c.attended()
	for _, o := range c.r.net.of(nil) {
		o.wire.unanswered(reach)
	}
	c.on = false
	c.strict.Store(false)
}

// ghosts checks that no client is present whose node lives and said goodbye to it while there were faults.
func (r *run) ghosts() {
	e, is := r.engine.(*engine)
	if !is {
		return
	}
	for _, ch := range slices.Sorted(maps.Keys(e.store.presence)) {
		for _, id := range slices.Sorted(maps.Keys(e.store.present(r.now(), ch))) {
			added := e.store.presence[ch][id].until - e.presenceTTL
			r.application.mu.Lock()
			s := r.application.clients[id]
			gone := s != nil && s.disconnected && added > e.back && s.at < r.book.healed
			r.application.mu.Unlock()
			if gone && r.running(s.node.UID()) {
				r.fail("%s: is present in %s, and has gone at %v", s.name, ch, s.at)
			}
		}
	}
}
