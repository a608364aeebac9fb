package probe

import (
	"maps"
	"slices"

	"github.com/gyrohq/gyro/protocol"
)

// Replica is a map as a client knows it.
type Replica struct {
	C       *Client
	Channel string
	Entries map[string]string
	Offset  uint64
	Epoch   string
}

// Apply puts an entry or a change into the Replica.
func (m *Replica) Apply(p *protocol.Publication) {
	m.C.Want(p.Key != "", "an entry or a change of a map has no key")
	if p.Removed {
		m.C.Want(len(p.Data) == 0, "a removal has the data %s", p.Data)
		delete(m.Entries, p.Key)
		return
	}
	m.Entries[p.Key] = string(p.Data)
}

// Follow reads a map by its phases until the subscription is live, and calls between after each page.
func (c *Client) Follow(ch string, limit int32, between func(page int)) *Replica {
	m := &Replica{C: c, Channel: ch, Entries: make(map[string]string)}
	seen := make(map[string]bool)
	request := func(r *protocol.SubscribeRequest) { State(r); r.Limit = limit }
	for page := 1; ; page++ {
		c.Want(page < 1000, "the map is not live after %d replies", page)
		r := c.SubscribeWith(ch, request)
		c.Want(r.Type == 1, "the reply has the type %d, expected 1", r.Type)
		if page > 1 {
			c.Want(r.Epoch == m.Epoch, "the epoch changes from %q to %q between two pages", m.Epoch, r.Epoch)
		}
		for _, p := range r.State {
			c.Want(!seen[p.Key], "the key %q comes twice in the pages of the state", p.Key)
			c.Want(!p.Removed && (r.Phase == 0 || p.Offset <= r.Offset), "an entry of the state is removed, or newer than the position")
			seen[p.Key] = true
			m.Apply(p)
		}
		for _, p := range r.Publications {
			m.Apply(p)
		}
		m.Epoch = r.Epoch
		if r.Phase == 0 {
			m.Offset = r.Offset
			return m
		}
		c.Want(r.Phase == 2 || r.Phase == 1, "the reply has the phase %d", r.Phase)
		c.Want(page == 1 || r.Phase == 1 || r.Offset == m.Offset, "the position changes from %d to %d between two pages of the state", m.Offset, r.Offset)
		m.Offset = r.Offset
		if between != nil {
			between(page)
		}
		phase, cursor := int32(2), r.Cursor
		if cursor == "" {
			phase = 1
		}
		request = func(q *protocol.SubscribeRequest) {
			q.Type, q.Phase, q.Cursor, q.Limit, q.Offset, q.Epoch = 1, phase, cursor, limit, m.Offset, m.Epoch
		}
	}
}

// Change takes the next change of the map.
func (m *Replica) Change() *protocol.Publication {
	p := m.C.Publication("of a change of the map")
	if m.Epoch != "" {
		m.C.Want(p.Pub.Offset == m.Offset+1, "a change has the offset %d, which follows %d", p.Pub.Offset, m.Offset)
		m.Offset = p.Pub.Offset
	}
	m.Apply(p.Pub)
	return p.Pub
}

// Is compares the Replica with the state of the map.
func (m *Replica) Is(want map[string]string) {
	if maps.Equal(m.Entries, want) {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		got, ok := m.Entries[k]
		m.C.Want(ok && got == want[k], "the key %q has the data %s, expected %s", k, got, want[k])
	}
	for k := range m.Entries {
		_, ok := want[k]
		m.C.Want(ok, "the key %q is there, and was removed or never set", k)
	}
}

// ComeBack edits a subscribe request: from the position.
func (m *Replica) ComeBack(r *protocol.SubscribeRequest) {
	r.Type, r.Phase, r.Recover, r.Offset, r.Epoch = 1, 1, true, m.Offset, m.Epoch
}
