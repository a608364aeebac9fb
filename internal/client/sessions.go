package client

import (
	"context"
	"encoding/binary"

	"github.com/google/uuid"
)

// sessions are the clients of a loop that have session IDs: secrets by which emulated
// commands and server operations find a connection. Other clients are not in it.
type sessions struct {
	clients map[uuid.UUID]*Client
	ids     map[*Client]uuid.UUID
}

// add makes an ID for c, by which loopOf finds the loop.
func (t *sessions) add(c *Client, loop, loops int) {
	if t.ids == nil {
		t.clients, t.ids = make(map[uuid.UUID]*Client), make(map[*Client]uuid.UUID)
	}
	id := newSessionID(loop, loops)
	t.clients[id], t.ids[c] = c, id
}

func (t *sessions) remove(c *Client) {
	if id, ok := t.ids[c]; ok {
		delete(t.clients, id)
		delete(t.ids, c)
	}
}

// find returns the client with an ID, or nil. The time that it takes depends on a hash with a
// secret seed, so it reveals nothing of the IDs in use.
func (t *sessions) find(id uuid.UUID) *Client { return t.clients[id] }

// newSessionID returns a random UUID (version 4) whose last 16 bits are the loop modulo
// loops, which is at most 65,536. All its other bits are unknown to others.
func newSessionID(loop, loops int) uuid.UUID {
	id := uuid.New()
	tail := int(binary.BigEndian.Uint16(id[14:])) % (1 << 16 / loops)
	binary.BigEndian.PutUint16(id[14:], uint16(tail*loops+loop))
	return id
}

// loopOf is the loop that the ID was made for.
func loopOf(id uuid.UUID, loops int) int { return int(binary.BigEndian.Uint16(id[14:])) % loops }

// parseSessionID accepts only the text of a session ID as the connect result has it.
func parseSessionID(text string) (id uuid.UUID, ok bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}

// Emulate passes commands to the client with a session ID, if the node has it, and waits
// until they are dispatched. data is that of a protocol.EmulationRequest. Malformed commands
// are only logged. The error is that of ctx.
func (r *Registry) Emulate(ctx context.Context, session string, data []byte) error {
	id, ok := parseSessionID(session)
	if open, _ := r.State(); !ok || !open {
		return nil
	}
	l := r.loops[loopOf(id, len(r.loops))]
	if !l.call(ctx, func() { l.emulate(id, data) }) {
		return ctx.Err() // nil if the loop has ended, and with it the session
	}
	return nil
}

func (l *Loop) emulate(id uuid.UUID, data []byte) {
	c := l.sessions.find(id)
	if c == nil || !c.session.Via().Emulated() {
		return
	}
	frame, err := c.session.Via().Commands(data)
	if err != nil {
		c.report("commands refused: they are malformed", "", err)
		return
	}
	c.contained(func() { c.session.Receive(frame) })
}
