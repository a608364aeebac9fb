package client

import (
	"context"
	"encoding/binary"
	"strings"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/transport"
)

// sessions are the clients of a loop with session IDs: secrets by which emulated commands and server operations find a
// connection.
type sessions struct {
	clients map[uuid.UUID]*Client
	ids     map[*Client]uuid.UUID
}

// add makes an ID that leads loopOf to the loop.
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

// find takes a time that depends on a hash with a secret seed, so it reveals nothing of the IDs in use.
func (t *sessions) find(id uuid.UUID) *Client { return t.clients[id] }

// newSessionID returns a random UUID (version 4) whose last 16 bits are the loop modulo loops, at most 65,536. All its
// other bits are unknown to others.
func newSessionID(loop, loops int) uuid.UUID {
	id := uuid.New()
	tail := int(binary.BigEndian.Uint16(id[14:])) % (1 << 16 / loops)
	binary.BigEndian.PutUint16(id[14:], uint16(tail*loops+loop))
	return id
}

func loopOf(id uuid.UUID, loops int) int { return int(binary.BigEndian.Uint16(id[14:])) % loops }

// parseSessionID accepts only the form of the connect result.
func parseSessionID(text string) (id uuid.UUID, ok bool) {
	const size = 36 // of the usual form; uuid.Parse knows others
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == size && strings.ToLower(text) == text
}

// Emulate passes the data of a protocol.EmulationRequest to the client with a session ID, if the node has it, and waits
// until it is dispatched. Malformed commands are only logged. The error is of ctx.
func (r *Registry) Emulate(ctx context.Context, session string, data []byte) error {
	select {
	case <-r.Dispatch(session, data):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Dispatch is Emulate without waiting, in the order of the calls. The channel is closed afterwards.
func (r *Registry) Dispatch(session string, data []byte) <-chan struct{} {
	dispatched := make(chan struct{})
	id, ok := parseSessionID(session)
	if open, _ := r.State(); !ok || !open {
		close(dispatched)
		return dispatched
	}
	l := r.loopOf(id)
	posted := l.Post(loop.Func(func() {
		defer close(dispatched)
		l.emulate(id, data)
	}))
	if !posted { // the loop has ended, and with it the session
		close(dispatched)
	}
	return dispatched
}

// EmulateOn is Emulate on the loop l, without waiting. It returns l if that is done or there is no such session, the
// session's loop if that is another one, and nil if the node has another UID or is not open.
func (r *Registry) EmulateOn(l transport.Loop, node, session string, data []byte) transport.Loop {
	if open, _ := r.State(); !open || node != r.Session.NodeID {
		return nil
	}
	id, ok := parseSessionID(session)
	if !ok {
		return l
	}
	own := r.loopOf(id)
	if next := own.Sockets(); next != l {
		return next
	}
	own.emulate(id, data)
	return l
}

func (r *Registry) loopOf(id uuid.UUID) *Loop { return r.loops[loopOf(id, len(r.loops))] }

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
