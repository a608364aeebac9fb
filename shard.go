package gyro

import (
	"github.com/gyrohq/gyro/internal/lane"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/users"
)

// shard is a loop and what it owns.
type shard struct {
	node  *Node
	index int
	loop  *loop.Loop
	// users are the authenticated clients by user.
	users map[string][]*Client
	// first of the list of all connections, and their number.
	first       *Client
	connections int
	lanes       lane.Group
	// entered is the client that its transport serves, if it does.
	entered *Client
}

// register makes a client addressable by its user.
func (s *shard) register(c *Client) bool {
	user := c.session.User()
	if !s.node.users.Add(user, s.node.cfg.UserConnectionLimit) {
		return false
	}
	list := s.users[user]
	c.userSlot = int32(len(list))
	s.users[user] = append(list, c)
	return true
}

func (s *shard) unregister(c *Client) {
	user := c.session.User()
	s.node.users.Remove(user)
	list := s.users[user]
	last := len(list) - 1
	list[c.userSlot] = list[last]
	list[c.userSlot].userSlot = c.userSlot
	list[last] = nil
	if last == 0 {
		delete(s.users, user)
	} else {
		s.users[user] = list[:last]
	}
}

// each calls f with the user's clients that t selects. f may close them.
func (s *shard) each(user string, t *users.Target, f func(*Client)) {
	for _, c := range append([]*Client(nil), s.users[user]...) {
		if t.Match(c.ID()) {
			c.contained(func() { f(c) })
		}
	}
}

// link and unlink keep the list of all connections, authenticated or not.
func (s *shard) link(c *Client) {
	s.connections++
	c.next = s.first
	if s.first != nil {
		s.first.prev = c
	}
	s.first = c
}

func (s *shard) unlink(c *Client) {
	if c.prev == nil && s.first != c {
		return // already
	}
	s.connections--
	switch {
	case c.prev != nil:
		c.prev.next = c.next
	case s.first == c:
		s.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
}
