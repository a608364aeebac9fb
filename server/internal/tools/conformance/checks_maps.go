package conformance

import (
	"bytes"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func (t *trial) write(c *client, ch string, want map[string]string, from, to int) {
	for n := from; n < to; n++ {
		key, data := fmt.Sprintf("key-%03d", n), t.Data(n)
		c.OK(probe.Set(ch, key, data))
		want[key] = string(data)
	}
}

func mapChecks() []check {
	const section = "protocol-rules.md#maps"
	const needs = mapState | writes
	return []check{
		{"maps.state", section, "the state has each key once, with its data", needs, func(t *trial) {
			c, ch, want := t.Connect(), t.Channel(), map[string]string{}
			c.Follow(ch, 0, nil)
			t.write(c, ch, want, 0, 5)
			c.OK(probe.Set(ch, "key-001", t.Data(11)))
			want["key-001"] = string(t.Data(11))
			c.OK(probe.Remove(ch, "key-003"))
			delete(want, "key-003")
			t.Connect().Follow(ch, 0, nil).Is(want)
		}},
		{"maps.pages", section, "a state of several pages has each key once, also while the map changes", needs, func(t *trial) {
			c, ch, want := t.Connect(), t.Channel(), map[string]string{}
			c.Follow(ch, 0, nil)
			t.write(c, ch, want, 0, 250)
			pages := 0
			m := t.Connect().Follow(ch, 100, func(page int) {
				pages = page
				t.write(c, ch, want, 40*page, 40*page+5)
				key := fmt.Sprintf("key-%03d", 100*page)
				c.OK(probe.Remove(ch, key))
				delete(want, key)
				t.write(c, ch, want, 300+page, 301+page)
			})
			if pages == 0 {
				t.Skip("the server gives 250 keys in one page of 100")
			}
			settle(m, c, want)
			m.Is(want)
		}},
		{"maps.live", section, "changes and removals come after the state, in order", needs, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			m := c.Follow(ch, 0, nil)
			c.OK(probe.Set(ch, "a", t.Data(1)))
			p := m.Change()
			t.Want(p.Key == "a" && bytes.Equal(p.Data, t.Data(1)) && !p.Removed, "the change of the key a is %+v", p)
			c.OK(probe.Set(ch, "a", t.Data(2)))
			p = m.Change()
			t.Want(p.Key == "a" && bytes.Equal(p.Data, t.Data(2)), "the change of the key a is %+v", p)
			c.OK(probe.Remove(ch, "a"))
			p = m.Change()
			t.Want(p.Key == "a" && p.Removed, "the removal of the key a is %+v", p)
		}},
		{"maps.remove_missing", section, "to remove a key that is not there succeeds, and changes nothing", needs, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			m := c.Follow(ch, 0, nil)
			c.OK(probe.Remove(ch, "a"))
			c.OK(probe.Set(ch, "b", t.Data(1)))
			t.Want(m.Change().Key == "b", "a change comes for a key that was not there")
		}},
		{"maps.twice", section, "a second subscribe to a map is error 105", needs, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Follow(ch, 0, nil)
			c.Refused(t.Request(ch, probe.State), 105)
			c.Leave(ch)
			c.Follow(ch, 0, nil)
		}},
		{"maps.as_stream", section, "a map cannot be subscribed to as a stream: error 103 or 107", needs, func(t *trial) {
			t.Connect().Refused(t.Request(t.Channel(), nil), 103, 107)
		}},
		{"maps.deltas", section, "patches build on the value of their key; the first one of a key, and that behind a removal, is whole", needs | mapDeltas, func(t *trial) { t.mapDeltas() }},
		{"maps.unknown_phase", section, "a phase that does not exist is error 107", needs, func(t *trial) {
			t.Connect().Refused(t.Request(t.Channel(), func(r *protocol.SubscribeRequest) { r.Type, r.Phase = 1, 9 }), 107)
		}},
		{"maps.cursor_alone", section, "a cursor without the pages before it is error 103", needs, func(t *trial) {
			t.Connect().Refused(t.Request(t.Channel(), func(r *protocol.SubscribeRequest) { r.Type, r.Phase, r.Cursor = 1, 2, "key" }), 103)
		}},
	}
}

func mapReturnChecks() []check {
	const section = "protocol-rules.md#maps"
	const needs = mapState | writes
	return []check{
		{"maps.recovery", section, "who comes back with a position gets the changes since", needs | mapPositions, func(t *trial) {
			m, c, want := t.away()
			back := c.SubscribeWith(m.Channel, m.ComeBack)
			t.Want(back.Type == 1 && back.Phase == 0, "the reply has type %d and phase %d, expected 1 and 0", back.Type, back.Phase)
			t.Want(back.WasRecovering && back.Recovered && back.Recoverable, "was_recovering is %t, recovered %t, recoverable %t", back.WasRecovering, back.Recovered, back.Recoverable)
			for _, p := range back.Publications {
				t.Want(p.Offset == m.Offset+1, "in the reply, offset %d follows %d", p.Offset, m.Offset)
				m.Offset = p.Offset
				m.Apply(p)
			}
			t.Want(back.Offset == m.Offset && back.Epoch == m.Epoch, "the position is %d of %q, expected that of the last change, %d of %q", back.Offset, back.Epoch, m.Offset, m.Epoch)
			m.Is(want)
			m.C = c
			c.OK(probe.Set(m.Channel, "z", t.Data(9)))
			m.Change()
		}},
		{"maps.other_epoch", section, "a position of another epoch is error 112, and the state can be read at once", needs | mapPositions, func(t *trial) {
			m, c, want := t.away()
			m.Epoch = "another"
			c.Refused(t.Request(m.Channel, m.ComeBack), 112)
			c.Follow(m.Channel, 0, nil).Is(want)
		}},
		{"maps.changes_without_state", section, "changes without the state before them are for who recovers: else error 103", needs | mapPositions, func(t *trial) {
			m, c, _ := t.away()
			c.Refused(t.Request(m.Channel, func(r *protocol.SubscribeRequest) {
				m.ComeBack(r)
				r.Recover = false
			}), 103)
		}},
	}
}

func settle(m *probe.Replica, writer *client, want map[string]string) {
	writer.OK(probe.Set(m.Channel, "last", writer.Data(999)))
	want["last"] = string(writer.Data(999))
	for m.Entries["last"] == "" {
		m.Change()
	}
}

// away disconnects a client from a map and changes the map. It returns the old replica, a client for the return, and the
// state of the map.
func (t *trial) away() (*probe.Replica, *client, map[string]string) {
	c, ch, want := t.Connect(), t.Channel(), map[string]string{}
	m := c.Follow(ch, 0, nil)
	t.write(c, ch, want, 0, 3)
	for range 3 {
		m.Change()
	}
	m.Is(want)
	t.write(c, ch, want, 2, 5)
	c.OK(probe.Remove(ch, "key-000"))
	delete(want, "key-000")
	return m, t.Connect(), want
}

func (t *trial) mapDeltas() {
	c, w, ch := t.Connect(), t.Connect(), t.Channel()
	w.Follow(ch, 0, nil)
	step := func(r *protocol.SubscribeRequest) { probe.State(r) }
	for live := false; !live; {
		r := c.SubscribeWith(ch, func(r *protocol.SubscribeRequest) { step(r); r.Delta = probe.Fossil })
		t.Want(r.Delta, "the result does not have delta")
		live = r.Phase == 0
		step = func(q *protocol.SubscribeRequest) { q.Type, q.Phase, q.Offset, q.Epoch = 1, 1, r.Offset, r.Epoch }
	}
	values := map[string]*probe.Whole{"a": new(probe.Whole), "b": new(probe.Whole)}
	patches := 0
	set := func(key string, n int, whole bool) {
		w.OK(probe.Set(ch, key, t.long(n)))
		p := c.Publication("of a change of the map").Pub
		t.Want(p.Key == key, "a change of the key %q comes, expected one of %q", p.Key, key)
		t.Want(!whole || !p.Delta, "the value of the key %q is a patch, and there is none before it", key)
		if p.Delta {
			patches++
		}
		got, err := values[key].Restore(t.Encoding, p)
		t.Want(err == nil, "the key %q: %v", key, err)
		t.Want(bytes.Equal(got, t.long(n)), "the key %q has the value %s, expected %s", key, got, t.long(n))
	}
	for n := range 6 {
		set([]string{"a", "b"}[n%2], n, n < 2)
	}
	w.OK(probe.Remove(ch, "a"))
	t.Want(c.Publication("of a removal").Pub.Removed, "a change that is no removal comes for one")
	set("b", 6, false)
	set("a", 7, true)
	set("a", 8, false)
	if patches == 0 {
		t.Skip("the server agreed to deltas, and sent none")
	}
}
