package gyro

import (
	"sync"

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
	// completing is what is being completed for one of them.
	completing completion
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
			f(c)
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

// inbound is a received message on its way to the loop.
type inbound struct {
	p   *peer
	buf []byte
}

var inbounds = sync.Pool{New: func() any { return new(inbound) }}

// keepInbound is the largest buffer that is kept for other messages.
const keepInbound = 16 << 10

// Run hands the message to the session.
func (in *inbound) Run() {
	p := in.p
	p.session.Receive(in.buf)
	w := weight(in.buf)
	if left := p.queued.Add(-w); left <= maxQueued/2 && left+w > maxQueued/2 {
		select {
		case p.drain <- struct{}{}:
		default:
		}
	}
	in.p = nil
	if cap(in.buf) <= keepInbound {
		inbounds.Put(in)
	}
}
