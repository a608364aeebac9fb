package client

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/flightrecorder"
	"github.com/gyrohq/gyro/internal/guard"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
	"github.com/gyrohq/gyro/transport"
)

// Loop is a loop and its clients, used on the loop only.
type Loop struct {
	*loop.Loop
	// Index in the list of the node's loops; constant.
	Index   int
	clients *Registry
	work    workGroup
	// users are the authenticated clients.
	users    map[string][]*Client
	sessions sessions
	scratch  session.Scratch
	agents   agents
	counts   *clientmetrics.Counter // nil without an observer of turns
	ring     *flightrecorder.Ring   // nil without a flight recorder
	refusals refusal.Reporter
	// first of all connections, their number, and the walks under way in the list.
	first       *Client
	connections int
	cursors     []*cursor
	// wall is how far the node's clock was ahead of Now, in the turn when it was read.
	wall struct{ read, ahead int64 }
	// entered is the client whose transport is calling it, or nil.
	entered *Client
}

// Wall returns what the node's clock shows in this turn, in Unix nanoseconds.
func (l *Loop) Wall() int64 {
	if now := l.Now(); l.wall.read != now {
		l.wall.read, l.wall.ahead = now, l.clients.Session.Clocks.Wall()-l.Clock()
	}
	return l.Now() + l.wall.ahead
}

// Cluster implements clientmetrics.Clock.
func (l *Loop) Cluster() int64 { return l.clients.Session.Clocks.Now() }

func (l *Loop) register(c *Client) bool {
	user := c.session.User()
	if !l.clients.users.Add(user, l.clients.UserConnectionLimit) {
		return false
	}
	list := l.users[user]
	c.userSlot = int32(len(list))
	l.users[user] = append(list, c)
	if c.session.Via().Sessions() {
		l.sessions.add(c, l.Index, len(l.clients.loops))
	}
	return true
}

func (l *Loop) unregister(c *Client) {
	user := c.session.User()
	l.clients.users.Remove(user)
	l.agents.remove(c.agent)
	if c.session.Via().Sessions() {
		l.sessions.remove(c)
	}
	list := l.users[user]
	last := len(list) - 1
	list[c.userSlot] = list[last]
	list[c.userSlot].userSlot = c.userSlot
	list[last] = nil
	if last == 0 {
		delete(l.users, user)
	} else {
		l.users[user] = list[:last]
	}
}

// each calls f, which may close clients.
func (l *Loop) each(t *Target, f func(*Client)) {
	for _, c := range l.selected(t) {
		c.contained(func() { f(c) })
	}
}

// selected: a nil t selects all.
func (l *Loop) selected(t *Target) []*Client {
	if t == nil {
		return slices.Concat(slices.Collect(maps.Values(l.users))...)
	}
	return slices.DeleteFunc(l.of(t), func(c *Client) bool { return !t.Match(c.ID()) })
}

// of looks for the session of t, for its user, or without either for its client ID among all clients.
func (l *Loop) of(t *Target) []*Client {
	switch {
	case t.Session != "":
		id, _ := parseSessionID(t.Session)
		c := l.sessions.find(id)
		if c == nil || !t.AnyUser && c.session.User() != t.User {
			return nil
		}
		return []*Client{c}
	case t.AnyUser:
		return l.withID(t.Client)
	}
	return slices.Clone(l.users[t.User])
}

func (l *Loop) withID(text string) []*Client {
	id, err := uuid.Parse(text)
	if err != nil {
		return nil
	}
	for _, clients := range l.users {
		for _, c := range clients {
			if c.id == id {
				return []*Client{c}
			}
		}
	}
	return nil
}

// call waits for f on the loop. It returns false if the loop or ctx has ended before.
func (l *Loop) call(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	posted := l.Post(loop.Func(func() {
		defer close(done)
		f()
	}))
	if !posted {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// addConnection adds to the list of all connections, authenticated or not.
func (l *Loop) addConnection(c *Client) {
	l.connections++
	c.next = l.first
	if l.first != nil {
		l.first.prev = c
	}
	l.first = c
}

// removeConnection returns false if it was called before.
func (l *Loop) removeConnection(c *Client) bool {
	if c.prev == nil && l.first != c {
		return false
	}
	l.connections--
	for _, at := range l.cursors {
		if at.next == c {
			at.next = c.next
		}
	}
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	return true
}

// drain disconnects limit connections at most.
func (l *Loop) drain(limit int) {
	for c := l.first; c != nil && limit > 0; limit-- {
		next := c.next
		c.contained(func() { c.session.CloseAfterDelivery(protocol.DisconnectShutdown) })
		c = next
	}
}

// panicked ends the client of subject (see loop.Loop.OnPanic), or the one whose transport was calling it, else the
// watcher of a socket.
func (l *Loop) panicked(subject, reason any, stack []byte) {
	c := l.entered
	if t, ok := subject.(interface{ Owner() hub.Subscriber }); ok {
		subject = t.Owner()
	}
	switch e := subject.(type) {
	case *env:
		c = e.client()
	case interface{ Of() *session.Session }:
		c = e.Of().Env().(*env).client()
	}
	l.entered = nil
	l.work.Abort()
	if c != nil {
		c.panicked(reason, stack)
		c.crash()
		return
	}
	report := func(reason any, stack []byte) { l.clients.panicked("", reason, stack) }
	report(reason, stack)
	if w, ok := subject.(transport.Watcher); ok {
		guard.Do(w.Ended, report)
	}
}

func (c *Client) crash() {
	d := protocol.DisconnectServerError
	if !guard.Do(func() { c.session.Close(d) }, c.panicked) {
		c.session.Abandon(d, func(step func()) { guard.Do(step, c.panicked) })
	}
}

// contained calls f. If it panics, the client ends.
func (c *Client) contained(f func()) {
	if !guard.Do(f, c.panicked) {
		c.crash()
	}
}

func (c *Client) panicked(reason any, stack []byte) { c.loop.clients.panicked(c.ID(), reason, stack) }
