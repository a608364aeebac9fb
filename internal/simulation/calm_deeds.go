package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
)

// beginCalm begins the calm phase with the deeds of the seed.
func (r *run) beginCalm() {
	c := r.calm
	r.log.add("step", "the calm phase begins")
	c.on, c.since = true, r.now()
	c.strict.Store(true)
	r.net.widen()
	if e, is := r.engine.(*engine); is { // that is no fault
		e.double = 300
	}
	c.there()
	chance := stream(r.plan.Seed, "calm")
	users := c.ready()
	chance.Shuffle(len(users), func(i, j int) { users[i], users[j] = users[j], users[i] })
	moving := min(len(users), 2*len(moves))
	if chance.IntN(3) == 0 {
		c.desert(users, chance)
		moving = len(users)
	} else {
		for i, u := range users[:moving] {
			r.after(time.Duration(chance.Int64N(int64(deeds/2))), "calm "+u.user().name, func() { moves[i%len(moves)](c, u, chance) })
		}
	}
	for _, ch := range r.plan.Names {
		for n := range 4 {
			r.after(time.Duration(chance.Int64N(int64(deeds))), fmt.Sprint("calm ", ch, n), func() { c.publish(ch, chance, users[moving:]) })
		}
		r.after(time.Duration(chance.Int64N(int64(deeds))), "calm ask "+ch, func() { c.ask(c.machine(), ch) })
		r.after(deeds+reach+reach/2, "calm ask "+ch, func() { c.ask(c.machine(), ch) }) // before presence is renewed
	}
	r.after(time.Duration(chance.Int64N(int64(deeds))), "calm survey", func() { r.survey(c.machine()) })
}

func (c *calm) machine() *machine { return c.r.anyMachine("calm")() }

// ready returns the clients that are connected and keep the rules.
func (c *calm) ready() []program {
	return slices.DeleteFunc(slices.Clone(c.r.users), func(u program) bool {
		return u.user().closed || c.rude(u.user().name) || c.r.book.clients[u.user().name] == ""
	})
}

// moves are what happens to a client in the calm phase. It comes back each time.
var moves = []func(c *calm, u program, chance *rand.Rand){
	(*calm).leave, (*calm).breakOff, (*calm).depart, (*calm).oust, (*calm).kick, (*calm).expire, (*calm).flit, (*calm).vanish,
}

// channelOf chooses a channel to which a user is subscribed, or returns "".
func (c *calm) channelOf(u program, chance *rand.Rand) string {
	own := slices.DeleteFunc(slices.Clone(c.r.plan.Names), func(ch string) bool { return !c.r.book.sub(u.user().name, ch).active })
	if len(own) == 0 {
		return ""
	}
	return own[chance.IntN(len(own))]
}

func (c *calm) leave(u program, chance *rand.Rand) {
	if ch := c.channelOf(u, chance); ch != "" {
		c.leaves(u, ch, time.Duration(chance.Int64N(int64(2*deeds/3))))
	}
}

// flit ends a subscription, and the next one before it has begun.
func (c *calm) flit(u program, chance *rand.Rand) {
	ch := c.channelOf(u, chance)
	if ch == "" || kindOf(ch).server {
		return
	}
	c.flits[[2]string{ch, u.user().name}] = true
	c.leaves(u, ch, 300*time.Millisecond)
	short := time.Duration(chance.Int64N(int64(200 * time.Millisecond)))
	c.r.after(300*time.Millisecond+short, "calm "+u.user().name+" again", func() { c.leaves(u, ch, reach/2) })
}

// vanish breaks the connection of a client that subscribes, and the backend disconnects the client that its node still
// serves.
func (c *calm) vanish(u program, chance *rand.Rand) {
	ch := c.channelOf(u, chance)
	conns := slices.DeleteFunc(c.r.net.of(nil), func(o *conn) bool { return o.user != u.user().name })
	if ch == "" || kindOf(ch).server || len(conns) == 0 {
		return
	}
	c.flits[[2]string{ch, u.user().name}] = true
	c.leaves(u, ch, 300*time.Millisecond)
	at := 300*time.Millisecond + time.Duration(chance.Int64N(int64(200*time.Millisecond)))
	c.r.after(at, "calm "+u.user().name+" breaks off", func() { c.breakOff(u, chance) })
	c.r.after(at+time.Duration(chance.Int64N(int64(30*time.Millisecond))), "calm "+u.user().name+" is kicked", func() {
		c.mayEnd(u.user().name, "")
		c.r.command(conns[0].node, u.user(), "kick", "", 0)
	})
}

// leaves ends a subscription for a while.
func (c *calm) leaves(u program, ch string, away time.Duration) {
	c.mayEnd(u.user().name, ch)
	c.r.unsubscribe(c.machine(), u, ch)
	c.r.after(away, "calm "+u.user().name, func() { c.back(u, ch) })
}

func (c *calm) back(u program, ch string) {
	if c.mayEnd(u.user().name, ch); !c.r.book.sub(u.user().name, ch).active {
		c.r.subscribe(c.machine(), u, ch)
	}
}

func (c *calm) breakOff(u program, _ *rand.Rand) {
	c.mayEnd(u.user().name, "")
	for _, o := range c.r.net.of(nil) {
		if o.user == u.user().name {
			o.reset()
		}
	}
}

func (c *calm) depart(u program, chance *rand.Rand) {
	c.mayEnd(u.user().name, "")
	u.disconnect()
	c.r.after(time.Duration(chance.Int64N(int64(deeds/2))), "calm "+u.user().name, func() {
		c.mayEnd(u.user().name, "")
		u.connect()
	})
}

// oust ends a subscription with a code with which clients come back.
func (c *calm) oust(u program, chance *rand.Rand) {
	if ch := c.channelOf(u, chance); ch != "" {
		c.mayEnd(u.user().name, ch)
		c.r.command(c.machine(), u.user(), "take away", ch, 0)
	}
}

func (c *calm) kick(u program, _ *rand.Rand) {
	c.mayEnd(u.user().name, "")
	c.r.command(c.machine(), u.user(), "kick", "", 0)
}

func (c *calm) expire(u program, _ *rand.Rand) {
	c.mayEnd(u.user().name, "")
	c.r.command(c.machine(), u.user(), "expire", "", 0)
}

// desert has all clients of a node leave a channel. Some come back before the node has left it, or while it does.
func (c *calm) desert(users []program, chance *rand.Rand) {
	open := slices.DeleteFunc(slices.Clone(c.r.plan.Names), func(ch string) bool { return kindOf(ch).server })
	if len(open) == 0 {
		return
	}
	ch, m := open[chance.IntN(len(open))], c.machine()
	on := map[string]bool{}
	for _, o := range c.r.net.of(m) {
		on[o.user] = true
	}
	away := 900*time.Millisecond + time.Duration(chance.Int64N(int64(400*time.Millisecond)))
	for _, u := range users {
		if on[u.user().name] && c.r.book.sub(u.user().name, ch).active {
			c.leaves(u, ch, away)
			away = min(2*away, deeds)
		}
	}
	c.r.after(deeds+reach/2, "calm deserted "+ch, func() { c.publish(ch, chance, nil) })
}

// publish has a backend publish, or one of some clients.
func (c *calm) publish(ch string, chance *rand.Rand, users []program) {
	if len(users) == 0 || derived(ch) || chance.IntN(2) == 0 {
		c.r.publish(c.machine(), ch, chance.IntN(1000))
		return
	}
	u := users[chance.IntN(len(users))]
	if kindOf(ch).changes == nil {
		u.publish(ch)
	} else if u, is := u.(*user); is {
		u.change(ch, chance.IntN(1000))
	}
}

// ask compares the presence and the history of a channel with the book.
func (c *calm) ask(m *machine, ch string) {
	node, began, b := m.node, c.r.now(), c.r.book
	go func() {
		ctx := context.Background()
		all, err := node.Presence(ctx, ch)
		var h gyro.History
		if err == nil && kindOf(ch).changes == nil && kindOf(ch).history.HistorySize > 0 && !derived(ch) {
			h, err = node.History(ctx, ch, &gyro.HistoryFilter{Limit: -1})
		}
		c.r.tell("calm ask "+ch, func() {
			c.called(m.name+": presence and history of "+ch, began, err)
			c.history(m, ch, h)
			if c.settled(ch, began) {
				ids := []string{}
				for id := range all {
					ids = append(ids, id)
				}
				b.present(m.name, ch, ids)
			}
		})
	}()
}

// settled tells that all subscribers of a channel have been there for a while, and that no other one comes.
func (c *calm) settled(ch string, now time.Duration) bool {
	for k, s := range c.r.book.subs {
		if k[1] == ch && s.active && c.rude(k[0]) {
			return false
		}
	}
	for k, seeks := range c.seeking {
		if k[1] == ch && seeks {
			return false // the client may be present before it is told
		}
	}
	for k, at := range c.ends {
		if (k[1] == ch || k[1] == "") && at >= now-reach {
			return false // the client may be gone before it is told
		}
	}
	at, ok := c.changed[ch]
	return !ok || at < now-reach
}

// history checks that publications follow each other up to the top.
func (c *calm) history(m *machine, ch string, h gyro.History) {
	for i, p := range h.Publications {
		c.r.book.place(ch, client.StreamPosition{Offset: p.Offset, Epoch: h.Top.Epoch}, string(p.Data))
		if want := h.Top.Offset - uint64(len(h.Publications)-1-i); p.Offset != want {
			c.r.fail("%s: the history of %s has %d where %d should be", m.name, ch, p.Offset, want)
		}
	}
}

// lonely are what nodes log when they have heard nothing of a node that has ended.
var lonely = []string{"node is lost", "nodes are silent and will be told of a command when they are back"}

// nodeLog is where a node logs: nothing of importance may be there in the calm phase, and no panic of the node ever.
type nodeLog struct {
	r    *run
	m    *machine
	life string
}

// Enabled implements slog.Handler.
func (l *nodeLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (l *nodeLog) Handle(_ context.Context, e slog.Record) error {
	if !l.r.calm.strict.Load() && e.Message != "panic" {
		return nil
	}
	text := e.Message
	e.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	if l.r.vanished.Load() && slices.Contains(lonely, e.Message) {
		return nil
	}
	l.r.tell("log "+l.life+text, func() {
		if e.Message == "panic" || l.r.calm.on && fmt.Sprintf("%s/%d", l.m.name, l.m.lives) == l.life {
			l.r.fail("%s logs: %s", l.m.name, text)
		}
	})
	return nil
}

// WithAttrs implements slog.Handler.
func (l *nodeLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *nodeLog) WithGroup(string) slog.Handler { return l }
