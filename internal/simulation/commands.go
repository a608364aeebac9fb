package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gyrohq/gyro"
)

// soon is when a command that has succeeded has reached the application of a healthy node.
const soon = 6 * time.Second

// orders is the book of the commands of the server API.
type orders struct {
	r    *run
	mu   sync.Mutex
	list map[string]*order // by reason
}

// order is a command of the server API. Its reason names it, and comes back with its effects.
type order struct {
	reason   string
	user, ch string // without ch it is about connections
	since    time.Duration
	ended    bool
	at       time.Duration // ended
	err      error
	node     *gyro.Node     // that the command was given to
	begins   bool           // a subscription
	matched  map[string]int // client ID: how many subscriptions to the channel had ended, or begun
}

func isOrder(reason string) bool { return strings.HasPrefix(reason, "order ") }

// begin notes which clients match a command when it begins. A client matches if both it and the application know of it.
func (o *orders) begin(node *gyro.Node, user, ch string, begins bool) *order {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := &order{since: o.r.now(), reason: fmt.Sprint("order ", len(o.list)+1), node: node, user: user, ch: ch, begins: begins, matched: map[string]int{}}
	o.list[c.reason] = c
	id := o.r.book.clients[user]
	a := o.r.application
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.clients[id]
	switch {
	case s == nil || s.disconnected:
	case ch == "":
		c.matched[id] = 0
	case begins:
		c.matched[id] = o.r.began[id][ch]
	case o.r.book.sub(user, ch).active && s.ended[ch] < max(s.allowed[ch], o.r.began[id][ch]):
		c.matched[id] = s.ended[ch]
	}
	return c
}

func (o *orders) end(c *order, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.ended, c.err, c.at = true, err, o.r.now()
	if err == nil && !c.begins { // a subscription may wait for the engine
		o.r.after(o.r.calm.soon(), c.reason, func() { o.due(c) })
	}
}

// due checks that a command that has succeeded is done on each node that has reached the engine since its begin. The
// others learn of it when they are back. Handlers of a client without manners may wait for many others.
func (o *orders) due(c *order) {
	for id := range c.matched {
		o.r.application.mu.Lock()
		s := o.r.application.clients[id]
		o.r.application.mu.Unlock()
		for live := range o.r.net.live {
			m, _ := o.r.users[o.r.index(c.user)].(*model)
			if l, is := live.node.link.(*link); is && live.name == s.name && !(m != nil && m.rude) && !l.cut && l.changed < c.since {
				o.missed(c, id)
			}
		}
	}
}

// missed fails if a command was not done for a client.
func (o *orders) missed(c *order, id string) {
	a := o.r.application
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.clients[id]
	now := s.ended[c.ch]
	if c.begins {
		now = o.r.began[id][c.ch]
	}
	if !s.disconnected && (c.ch == "" || now == c.matched[id]) {
		o.r.fail("%s: %s succeeded and was not done: %q", s.name, c.reason, c.ch)
	}
}

// effect is an end of a client or a subscription. A command that has failed does nothing later; effects need a while to
// reach the application.
func (o *orders) effect(s *served, reason string) {
	if !isOrder(reason) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.list[reason]
	s.ordered[reason]++
	switch {
	case c == nil:
		o.r.application.fail("%s: nobody gave %s", s.name, reason)
	case c.user != s.user:
		o.r.application.fail("%s: %s is for %s", s.name, reason, c.user)
	case s.ordered[reason] > 1:
		o.r.application.fail("%s: %s is done %d times", s.name, reason, s.ordered[reason])
	case c.ended && c.err != nil && o.r.now() > c.at+5*time.Second:
		o.r.application.fail("%s: %s is done %v after it failed: %v", s.name, reason, o.r.now()-c.at, c.err)
	}
}

// check is called when all is quiet.
func (o *orders) check() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(o.list)) {
		c := o.list[reason]
		if !c.ended {
			o.r.fail("%s for %s has not ended", reason, c.user)
		}
		if c.err != nil || !o.r.running(c.node.UID()) {
			continue // a node that has ended tells silent nodes nothing
		}
		for id := range c.matched {
			o.missed(c, id)
		}
	}
}

// command gives a command of the server API about a user.
func (r *run) command(m *machine, u *told, kind, ch string, other int) {
	if m.down {
		return
	}
	of := ch
	if kind == "kick" || kind == "expire" {
		of = ""
	}
	c := r.orders.begin(m.node, u.name, of, kind == "give")
	target := gyro.Target{User: u.name}
	r.expelled[u.name] = r.expelled[u.name] || kind == "expire"
	r.operate(m, fmt.Sprintf("%s %s %s %s", kind, u.name, ch, c.reason), func(ctx context.Context, n *gyro.Node) error {
		var err error
		switch kind {
		case "kick":
			code := []uint32{3011, 3503, 4000, 4500}[other%4]
			err = n.Users().Disconnect(ctx, target, &gyro.DisconnectOptions{Disconnect: &gyro.Disconnect{Code: code, Reason: c.reason}})
		case "take away":
			code := []uint32{2500, 2000, 2599}[other%3]
			err = n.Users().Unsubscribe(ctx, target, ch, &gyro.Unsubscribe{Code: code, Reason: c.reason})
		case "give":
			o := r.optionsOf(u.name, ch)
			err = n.Users().Subscribe(ctx, target, ch, &o)
		case "expire":
			err = n.Users().Refresh(ctx, target, &gyro.RefreshOptions{Expired: true})
		}
		return err
	}, func(err error) { r.orders.end(c, err) })
}

// survey asks all nodes. Each that the asking one knows answers, unless it ends meanwhile.
func (r *run) survey(m *machine) {
	if m.down {
		return
	}
	r.count++
	data := fmt.Sprintf(`{"id":"survey-%d"}`, r.count)
	var known []gyro.NodeInfo
	var replies map[string]gyro.SurveyReply
	r.operate(m, "survey "+data, func(ctx context.Context, n *gyro.Node) (err error) {
		if known, err = n.Cluster().Nodes(ctx); err == nil {
			replies, err = n.Cluster().Survey(ctx, "simulation", []byte(data), "")
		}
		return err
	}, func(err error) {
		for _, info := range known {
			reply, ok := replies[info.UID]
			if err == nil && r.running(info.UID) && !(ok && (reply.Code != gyro.SurveyOK || string(reply.Data) == data)) {
				r.fail("%s: %s succeeded without the answer of %s: %q", m.name, data, info.UID, reply.Data)
			}
		}
	})
}

func (r *run) index(user string) int {
	return slices.IndexFunc(r.users, func(p program) bool { return p.user().name == user })
}

func (r *run) running(uid string) bool {
	return slices.ContainsFunc(r.machines, func(m *machine) bool { return !m.down && !m.starting && m.node.UID() == uid })
}
