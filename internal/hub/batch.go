package hub

import (
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/outbox"
	"github.com/gyrohq/gyro/transport"
)

// Batch are the messages that the subscribers of a channel get at once. Those who
// want all of them as they are get them in one frame.
type Batch struct {
	list []Delivery
	// plain tells that all are publications; first is the offset of the first one if
	// they follow each other in one stream, else 0.
	plain bool
	first uint64

	frames [2]localFrame
}

// drop takes the first n messages away: the loop of h is through with them.
func (b *Batch) drop(n int, h *Hub) {
	var memory channel.Memory // of those before
	freed := 0
	for i := range b.list[:n] {
		d := &b.list[i]
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
	b.prepare()
}

func free(memory channel.Memory, n int) {
	if memory != nil {
		memory.Free(n)
	}
}

// forget forgets all frames.
func (b *Batch) forget() {
	b.frames = [2]localFrame{}
	for i := range b.list {
		d := &b.list[i]
		clear(d.frames)
		d.frames = d.frames[:0]
	}
}

// prepare looks at what the batch consists of.
func (b *Batch) prepare() {
	b.frames, b.plain, b.first = [2]localFrame{}, true, 0
	if len(b.list) < 2 {
		return // those who get one message do not ask
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

// count is how many of the messages are no checks.
func (b *Batch) count() (n int) {
	for i := range b.list {
		if b.list[i].Kind != KindCheck {
			n++
		}
	}
	return n
}

// Plain tells that all messages are publications.
func (b *Batch) Plain() bool { return b.plain }

// Follows tells whether the messages are what comes next in a stream behind a
// position, and returns the offset of the last one.
func (b *Batch) Follows(epoch string, offset uint64) (last uint64, ok bool) {
	if !b.plain || b.first == 0 || b.first != offset+1 || b.list[0].Epoch != epoch {
		return 0, false
	}
	return offset + uint64(len(b.list)), true
}

// Frame returns all messages in one frame for connections of f, or nil if they have
// to go one by one: because one is no publication or cannot be encoded, or together they are
// large, or framing is costly and therefore done once per message for all loops. It
// is shared, as a Delivery's is.
func (b *Batch) Frame(f transport.Framer, form Form) []byte {
	for i := range b.frames {
		l := &b.frames[i]
		if l.framer == nil {
			l.framer, l.form = f, form
			l.frame = b.encode(f, form)
		}
		if l.framer == f && l.form == form {
			return l.frame
		}
	}
	return nil
}

func (b *Batch) encode(f transport.Framer, form Form) []byte {
	arena := b.list[0].arena
	if arena == nil || !b.plain || f.Costly() {
		return nil
	}
	size := b.size()
	if size > outbox.MaxGather {
		return nil
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	buf, err := s.appendBatch(headroom(arena.Tail(size), f), b.list, f.Encoding(), form)
	if err != nil {
		return nil
	}
	return arena.Commit(f.Frame(buf))
}

// size is about that of the frame.
func (b *Batch) size() (n int) {
	for i := range b.list {
		n += b.list[i].size()
	}
	return n
}

// size is about that of the frame.
func (m *Message) size() int {
	n := len(m.Channel) + envelope
	if m.Pub != nil {
		n += len(m.Pub.Data)
	}
	return n
}

// envelope is about what a push and its frame add to payload and channel.
const envelope = 64
