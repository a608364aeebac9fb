package hub

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/transport"
)

// Batch is the messages that subscribers get at once: in one frame, if they want all of them unchanged.
type Batch struct {
	list []Delivery
	// plain: all are publications. first is the offset of the first one if they follow each other in one stream, else 0.
	plain bool
	first uint64
	// replacedBy has for each message the index of the publication that replaces it, or 0; empty without Window.Latest.
	replacedBy []uint16

	frames [2]encoded
}

func (b *Batch) tell(c Counter) {
	for i := range b.frames {
		if e := &b.frames[i]; e.taken > 0 && c != nil {
			c.Sent(b.list[0].Channel, KindPublication, e.framer, e.taken*len(b.list), e.taken*e.size)
		}
		b.frames[i] = encoded{}
	}
}

func (b *Batch) drop(n int, h *Hub) {
	b.tell(h.Counter)
	var memory channel.Memory // of the messages before
	freed := 0
	for i := range b.list[:n] {
		d := &b.list[i]
		d.done(h.Counter)
		h.keepFrames(d.frames)
		if !d.Message.leave() {
			continue
		}
		if d.Memory != memory {
			free(memory, freed)
			memory, freed = d.Memory, 0
		}
		freed++
		d.recycle()
	}
	free(memory, freed)
	rest := copy(b.list, b.list[n:])
	clear(b.list[rest:])
	b.list = b.list[:rest]
	b.prepare(b.Latest())
}

func free(memory channel.Memory, n int) {
	if memory != nil {
		memory.Free(n)
	}
}

func (b *Batch) forget(c Counter) {
	b.tell(c)
	for i := range b.list {
		d := &b.list[i]
		d.Tell(c)
		clear(d.frames)
		d.frames = d.frames[:0]
	}
}

func (b *Batch) prepare(latest bool) {
	b.plain, b.first, b.replacedBy = true, 0, b.replacedBy[:0]
	if len(b.list) < 2 {
		return // DeliverAll is not called for one message
	}
	if latest {
		b.setReplaced()
	}
	for i := range b.list {
		if m := b.list[i].Message; m.Kind != KindPublication || m.Pub == nil {
			b.plain = false
			return
		}
	}
	head := b.list[0].Message
	if b.first = head.Pub.Offset; b.first == 0 {
		return
	}
	for i := range b.list {
		if m := b.list[i].Message; m.Pub.Offset != b.first+uint64(i) || m.Epoch != head.Epoch {
			b.first = 0
			return
		}
	}
}

func (b *Batch) setReplaced() {
	for i := range b.list {
		next, p := 0, b.list[i].Pub
		for j := i + 1; j < len(b.list) && next == 0 && b.list[i].Kind == KindPublication; j++ {
			if q := b.list[j].Pub; b.list[j].Kind == KindPublication && q.Key == p.Key && q.Channel == p.Channel {
				next = j
			}
		}
		b.replacedBy = append(b.replacedBy, uint16(next))
	}
}

// Latest reports whether subscribers that do not need all publications call Newest.
func (b *Batch) Latest() bool { return len(b.replacedBy) > 0 }

// Newest leaves out publications that are replaced by a newer one that lets accepts.
func (b *Batch) Newest(lets func(*channel.Publication) bool, deliver func(*Delivery)) {
	for i := range b.list {
		if !b.replaced(i, lets) {
			deliver(&b.list[i])
		}
	}
}

func (b *Batch) replaced(i int, lets func(*channel.Publication) bool) bool {
	for i = int(b.replacedBy[i]); i > 0; i = int(b.replacedBy[i]) {
		if lets(b.list[i].Pub) {
			return true
		}
	}
	return false
}

func (b *Batch) count() (n int) {
	for i := range b.list {
		if b.list[i].Kind != KindCheck {
			n++
		}
	}
	return n
}

// Plain reports whether all messages are publications.
func (b *Batch) Plain() bool { return b.plain }

// Follows reports whether the messages directly follow a position, and their last offset.
func (b *Batch) Follows(epoch string, offset uint64) (last uint64, ok bool) {
	if !b.plain || b.first == 0 || b.first != offset+1 || b.list[0].Epoch != epoch {
		return 0, false
	}
	return offset + uint64(len(b.list)), true
}

// Frame returns all messages in one frame, like the frame of a Delivery. It returns nil if they must be sent one by one:
// because one is no publication or cannot be encoded, because together they are large or exceed most bytes, or because
// framing is costly and so done once per message for all loops.
func (b *Batch) Frame(f transport.Framer, form Form, most int) []byte {
	for i := range b.frames {
		l := &b.frames[i]
		if l.framer == nil {
			l.framer, l.form = f, form
			l.frame, l.size = b.encode(f, form)
		}
		if !l.is(f, form) {
			continue
		}
		if l.frame == nil || len(l.frame) > most {
			return nil
		}
		l.taken++
		return l.frame
	}
	return nil
}

// size is without envelope and line breaks.
func (b *Batch) encode(f transport.Framer, form Form) (frame []byte, size int) {
	if b.list[0].hub == nil || !b.plain || f.Costly() {
		return nil, 0
	}
	arena := b.list[0].hub.arena
	estimate := b.size()
	if estimate > sendqueue.MaxGather {
		return nil, 0
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	buf, size, err := s.appendBatch(headroom(arena.Tail(estimate), f), b.list, f.Encoding(), form)
	if err != nil {
		return nil, 0
	}
	return arena.Commit(f.Frame(buf)), size
}

func (b *Batch) size() (n int) {
	for i := range b.list {
		n += b.list[i].size()
	}
	return n
}

func (m *Message) size() int {
	n := len(m.Channel) + envelope
	if m.Pub != nil {
		n += len(m.Pub.Data)
	}
	return n
}

const envelope = 64
