// Package conversation has random conversations of several clients with a server, and the models that foresee them.
package conversation

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

type client = probe.Client

// Talk has the settings of conversations.
type Talk struct {
	*probe.Probe
	Random *rand.Rand
	Steps  int
	// Subscribers may ask for Presence and History; with Cache, recovery gives the latest publication alone.
	Presence, History, Cache bool
}

type room struct {
	name    string
	log     [][]byte // payloads; the offset of the first is 1
	members map[int]bool
}

// Turns makes clients subscribe, unsubscribe, publish, and ask for presence and history, in random order. Each step ends
// when all that it causes has come.
func (t *Talk) Turns() {
	clients := []*client{t.Connect(), t.Connect(), t.Connect()}
	rooms := make([]*room, 3)
	for i := range rooms {
		rooms[i] = &room{name: t.Channel(), members: make(map[int]bool)}
	}
	next := 0
	for step := range t.Steps {
		n, r := t.Random.IntN(len(clients)), rooms[t.Random.IntN(len(rooms))]
		c := clients[n]
		switch t.Random.IntN(8) {
		case 0, 1:
			t.turnSubscribe(c, r, r.members[n])
			r.members[n] = true
		case 2:
			c.Leave(r.name)
			delete(r.members, n)
		case 3:
			t.turnAsk(c, r, r.members[n], len(r.members))
		default:
			if !r.members[n] {
				continue // it may be that only subscribers publish
			}
			fresh := 1 + t.Random.IntN(4)
			for range fresh {
				next++
				r.log = append(r.log, t.Data(next))
				c.Publish(r.name, t.Data(next))
			}
			t.turnDelivered(clients, r, fresh, step)
		}
		for i, c := range clients {
			t.Want(!slices.ContainsFunc(c.Pending, probe.IsPub), "step %d: client %d gets a publication that the model does not foresee", step, i+1)
			c.Pending = nil
		}
	}
}

func (t *Talk) turnSubscribe(c *client, r *room, already bool) {
	if already {
		c.Refused(t.Request(r.name, nil), 105)
		return
	}
	res := c.Subscribe(r.name)
	t.Want(!res.Positioned || res.Offset == uint64(len(r.log)), "%s is at offset %d after %d publications", r.name, res.Offset, len(r.log))
	if !t.Cache {
		t.Want(len(res.Publications) == 0, "a subscribe without recovery has %d publications", len(res.Publications))
	}
}

func (t *Talk) turnAsk(c *client, r *room, member bool, members int) {
	if !member {
		return
	}
	if t.Presence {
		who := c.OK(&protocol.Command{Presence: &protocol.PresenceRequest{Channel: r.name}}).Presence
		t.Want(who != nil && len(who.Presence) == members, "%d clients are subscribed to %s, presence has %d", members, r.name, len(who.Presence))
	}
	if t.History {
		h := c.OK(probe.History(protocol.HistoryRequest{Channel: r.name, Limit: 5, Reverse: true})).History
		t.Want(h != nil && h.Offset == uint64(len(r.log)), "history of %s is at offset %d after %d publications", r.name, h.Offset, len(r.log))
		for i, p := range h.Publications {
			offset := len(r.log) - i
			t.Want(p.Offset == uint64(offset) && string(p.Data) == string(r.log[offset-1]), "history of %s has %s at offset %d, expected %s at %d", r.name, p.Data, p.Offset, r.log[offset-1], offset)
		}
	}
}

func (t *Talk) turnDelivered(clients []*client, r *room, fresh, step int) {
	for n, c := range clients {
		if !r.members[n] {
			continue
		}
		for i := len(r.log) - fresh; i < len(r.log); i++ {
			p := c.Publication(fmt.Sprintf("%s of step %d at client %d", r.log[i], step, n+1))
			t.Want(p.Channel == r.name && string(p.Pub.Data) == string(r.log[i]), "step %d: client %d gets %s in %s, expected %s in %s", step, n+1, p.Pub.Data, p.Channel, r.log[i], r.name)
			t.Want(p.Pub.Offset == 0 || p.Pub.Offset == uint64(i+1), "step %d: the offset is %d, expected %d", step, p.Pub.Offset, i+1)
		}
	}
}

// Board has clients change a map and follow it, leave it and come back.
func (t *Talk) Board() {
	ch, want := t.Channel(), make(map[string]string)
	writer := t.Connect()
	writer.Follow(ch, 0, nil)
	followers := make([]*probe.Replica, 3)
	for step := range t.Steps {
		n := t.Random.IntN(len(followers))
		switch m := followers[n]; {
		case m == nil:
			followers[n] = t.Connect().Follow(ch, 0, nil)
			followers[n].Is(want)
		case t.Random.IntN(6) == 0:
			m.C.Conn.Close()
			followers[n] = nil
			if m.Epoch != "" && t.Random.IntN(2) == 0 {
				t.boardChange(writer, ch, want, step, followers)
				followers[n] = t.boardReturn(m)
				followers[n].Is(want)
			}
		default:
			t.boardChange(writer, ch, want, step, followers)
		}
	}
	for _, m := range followers {
		if m != nil {
			m.Is(want)
		}
	}
}

func (t *Talk) boardReturn(m *probe.Replica) *probe.Replica {
	c := t.Connect()
	r := c.Call(t.Request(m.Channel, m.ComeBack))
	if r.Error != nil {
		t.Want(r.Error.Code == 112, "a follower that comes back gets error %s", probe.Describe(r.Error))
		return c.Follow(m.Channel, 0, nil)
	}
	m.C = c
	for _, p := range r.Subscribe.Publications {
		t.Want(p.Offset == m.Offset+1, "in the reply, offset %d follows %d", p.Offset, m.Offset)
		m.Offset = p.Offset
		m.Apply(p)
	}
	t.Want(r.Subscribe.Phase == 0 && r.Subscribe.Offset == m.Offset, "the reply has phase %d and offset %d, expected 0 and %d", r.Subscribe.Phase, r.Subscribe.Offset, m.Offset)
	return m
}

func (t *Talk) boardChange(writer *client, ch string, want map[string]string, step int, followers []*probe.Replica) {
	key := fmt.Sprint("key-", t.Random.IntN(12))
	_, there := want[key]
	gone := t.Random.IntN(3) == 0
	if gone {
		writer.OK(probe.Remove(ch, key))
		delete(want, key)
	} else {
		writer.OK(probe.Set(ch, key, t.Data(step)))
		want[key] = string(t.Data(step))
	}
	writer.Pending = nil
	if gone && !there {
		return // nothing has changed
	}
	for _, m := range followers {
		if m != nil {
			p := m.Change()
			t.Want(p.Key == key && p.Removed == gone, "step %d: the change of the key %q comes, expected that of %q", step, p.Key, key)
			m.Is(want)
		}
	}
}
