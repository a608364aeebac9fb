package hub

import (
	"cmp"
	"slices"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/transport"
)

// A subscriber with a tags filter may lack the publication before the current one. A patch for it must build on the one
// that it received last: its base. A base is kept as long as some subscriber received nothing newer; subscribers with
// the same base share patches.

const (
	// maxBases is how many bases a channel has, and so patches of one publication. A subscriber without a base gets the
	// publication in full. There may be twice as many for a moment: one that moves to the next base stays counted, and
	// others may still hold the one before.
	maxBases = 64
	// Twice as many for a moment.
	maxBaseBytes = 16 << 20
	// How many bases are used again, and the size of their payloads.
	keepBases, keepBase = 256, 4 << 10
)

// Base is what subscribers of a group got last. It is valid until the turn ends.
type Base struct {
	id      uint32 // of all bases of the hub; never 0
	refs    int32  // memberships with this id
	epoch   string
	pub     channel.Publication // its offset and a copy of its data
	patches []patch             // that were made of it in this turn
}

type patch struct {
	channel string
	offset  uint64
	encoded
}

type bases []*Base

type baseTable struct {
	of      map[*group]bases
	last    uint32  // the id of the newest one
	size    int     // of their payloads, bytes
	used    []*Base // bases with patches
	dropped []*Base // in this turn
	spare   []*Base
	random  uint32
}

// Resume returns how a subscriber with a filter gets the publication: Patched with its base for FrameOn, or in full if
// form is 0. has is the offset of the last publication that it got in the epoch of the message; 0 for none that patches
// may build on.
func (d *Delivery) Resume(s *Membership, has uint64) (form Form, on *Base) {
	if d.hub == nil {
		return 0, nil // nothing is known of the bases
	}
	t := &d.hub.bases
	if d.Prev == nil { // no client asked for patches
		t.release(s)
		return 0, nil
	}
	b := t.baseOf(s)
	switch {
	case has == 0:
	case d.Prev.Offset == has:
		form = Patched
	case b != nil && b.pub.Offset == has && b.epoch == d.Epoch:
		form, on = Patched, b
	}
	t.assign(s, d.Message)
	return form, on
}

func (t *baseTable) baseOf(s *Membership) *Base {
	if s.base == 0 {
		return nil
	}
	list := t.of[s.group]
	if i, ok := list.find(s.base); ok {
		return list[i]
	}
	return nil
}

func (l bases) find(id uint32) (int, bool) {
	return slices.BinarySearchFunc(l, id, func(b *Base, id uint32) int { return cmp.Compare(b.id, id) })
}

func (t *baseTable) assign(s *Membership, m *Message) {
	moves := t.release(s)
	list := t.of[s.group]
	for i := len(list) - 1; i >= 0; i-- {
		if b := list[i]; b.pub.Offset == m.Pub.Offset && b.epoch == m.Epoch {
			b.refs++
			s.base = b.id
			return
		}
	}
	size := len(m.Pub.Data)
	switch full := len(list) >= maxBases || t.size+size > maxBaseBytes; {
	case moves && len(list) < 2*maxBases && t.size+size <= 2*maxBaseBytes:
	case full && (!admitted(m.Pub.Offset) || len(list) == 0):
		return
	case full:
		if list = t.evict(list); t.size+size > maxBaseBytes {
			t.set(s.group, list)
			return
		}
	}
	b := t.make(m)
	s.base = b.id
	t.set(s.group, append(list, b))
}

// admitted lets one of eight publications, which look random, replace another base. If each might, publications whose
// tags come in turns would drop each other's bases before they are of use. If none might, bases whose tags never come
// again would stay.
func admitted(offset uint64) bool { return offset*0x9E3779B97F4A7C15>>61 == 0 }

func (t *baseTable) set(g *group, list bases) {
	if len(list) == 0 {
		delete(t.of, g)
		return
	}
	if t.of == nil {
		t.of = make(map[*group]bases)
	}
	t.of[g] = list
}

func (t *baseTable) make(m *Message) *Base {
	var b *Base
	if n := len(t.spare); n > 0 {
		b, t.spare = t.spare[n-1], t.spare[:n-1]
	} else {
		b = new(Base)
	}
	if t.last++; t.last == 0 {
		t.last = 1
	}
	b.id, b.refs, b.epoch = t.last, 1, m.Epoch
	b.pub.Offset, b.pub.Data = m.Pub.Offset, append(b.pub.Data[:0], m.Pub.Data...)
	t.size += len(b.pub.Data)
	return b
}

// evict drops the base with fewer subscribers of two random ones.
func (t *baseTable) evict(list bases) bases {
	pick := func() int {
		t.random = t.random*1664525 + 1013904223
		return int(uint64(t.random) * uint64(len(list)) >> 32)
	}
	i, j := pick(), pick()
	if list[j].refs < list[i].refs {
		i = j
	}
	t.drop(list[i])
	return slices.Delete(list, i, i+1)
}

func (t *baseTable) drop(b *Base) {
	t.size -= len(b.pub.Data)
	t.dropped = append(t.dropped, b)
}

// release reports whether a member had a base, which stays until dropUnused.
func (t *baseTable) release(s *Membership) bool {
	b := t.baseOf(s)
	if b != nil {
		b.refs--
	}
	s.base = 0
	return b != nil
}

// dropUnused is called when messages have reached all subscribers: before that, the next subscriber to get the message
// would copy the base again.
func (t *baseTable) dropUnused(g *group) {
	list, ok := t.of[g]
	if !ok {
		return
	}
	kept := list[:0]
	for _, b := range list {
		if b.refs > 0 {
			kept = append(kept, b)
		} else {
			t.drop(b)
		}
	}
	clear(list[len(kept):])
	t.set(g, kept)
}

func (t *baseTable) forget(c Counter) {
	for _, b := range t.used {
		for i := range b.patches {
			if e := &b.patches[i].encoded; c != nil && e.taken > 0 && e.err == nil {
				c.Sent(b.patches[i].channel, KindPublication, e.framer, e.taken, e.taken*e.size)
			}
		}
		clear(b.patches)
		b.patches = b.patches[:0]
	}
	clear(t.used)
	t.used = t.used[:0]
	for _, b := range t.dropped {
		if cap(b.pub.Data) <= keepBase && len(t.spare) < keepBases {
			t.spare = append(t.spare, b)
		}
	}
	clear(t.dropped)
	t.dropped = t.dropped[:0]
}

// FrameOn is Frame for a patch of a base that Resume returned for this message, or nil.
func (d *Delivery) FrameOn(b *Base, f transport.Framer, form Form) ([]byte, error) {
	if b == nil {
		return d.Frame(f, form)
	}
	for i := range b.patches {
		if p := &b.patches[i]; p.offset == d.Pub.Offset && p.is(f, form) {
			p.taken++
			return p.frame, p.err
		}
	}
	if len(b.patches) == 0 {
		d.hub.bases.used = append(d.hub.bases.used, b)
	}
	p := patch{d.Channel, d.Pub.Offset, encoded{framer: f, form: form, taken: 1}}
	p.frame, p.size, p.err = d.encode(d.hub.arena, f, form, &b.pub)
	b.patches = append(b.patches, p)
	return p.frame, p.err
}
