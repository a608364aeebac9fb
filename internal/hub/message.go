package hub

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/fossil"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/bookmark"
)

// Kind of a message.
type Kind uint8

const (
	KindPublication Kind = iota
	KindJoin
	KindLeave
	// KindCheck is the top of a stream for positioned subscribers. No client gets it.
	KindCheck
)

// Form is how subscribers get publications.
type Form uint8

const (
	// Compact replaces the channel's name by its numeric ID.
	Compact Form = 1 << iota
	// Escaped is for delta compression: on JSON connections data is a string, also in full.
	Escaped
	// Patched sends the difference to the publication before where that is smaller. It implies Escaped.
	Patched
	// Bare sends the push without the reply around it, for one-way connections.
	Bare
	// Bookmarked sends a bookmark behind each publication, with its position alone: the only one that the client
	// recovers.
	Bookmarked
	// Open sends an empty line behind the message, before a bookmark.
	Open
)

// Message is for the subscribers of a channel. It is constant once it is posted. One of NewMessage is used again when
// all loops are done with it, unless a subscriber has called Keep.
type Message struct {
	Channel string
	Kind    Kind
	// Keyed: the publication is only for subscribers of its key (Hub.AddKey).
	Keyed bool
	// Round of the check that read the top; of a shared poll channel, the generation of its versions.
	Round uint32
	// Prev is the base for a patch, or nil. In a check, Epoch and Pub.Offset are the top.
	Pub   *channel.Publication
	Epoch string
	Prev  *channel.Publication
	Info  *channel.ClientInfo
	ID    int64
	// Memory that Pub, Prev and Info lie in, or nil.
	Memory channel.Memory

	loops int32
	fresh bool // made by NewMessage
	kept  atomic.Bool

	mu       sync.Mutex // for adding variants
	variants atomic.Pointer[variant]
}

type encoded struct {
	framer transport.Framer
	form   Form
	frame  []byte
	err    error
	// size is without envelope. taken is how many subscribers sent the frame.
	size, taken int
}

func (e *encoded) is(f transport.Framer, form Form) bool { return e.framer == f && e.form == form }

type variant struct {
	encoded
	next *variant
}

var messages = sync.Pool{New: func() any { return new(Message) }}

// NewMessage returns an empty message, to be filled, shared and posted.
func NewMessage() *Message {
	m := messages.Get().(*Message)
	m.fresh = true
	return m
}

// Share sets how many loops get the message. With 0, its memory is freed.
func (m *Message) Share(loops int) {
	m.loops = int32(loops)
	if loops == 0 {
		m.end()
	}
}

// Keep is called by a subscriber that needs the message for longer than its delivery.
func (m *Message) Keep() { m.kept.Store(true) }

// leave reports whether all loops are done with the message.
func (m *Message) leave() bool {
	if !m.fresh || atomic.LoadInt32(&m.loops) > 1 && atomic.AddInt32(&m.loops, -1) > 0 {
		return false
	}
	return !m.kept.Load()
}

func (m *Message) done() {
	if m.leave() {
		m.end()
	}
}

func (m *Message) end() {
	if m.Memory != nil {
		m.Memory.Free(1)
	}
	m.recycle()
}

func (m *Message) recycle() {
	*m = Message{}
	messages.Put(m)
}

// Delivery is a message on its way through one loop, with its frames.
type Delivery struct {
	*Message
	// WindowDelay is the longest that a window held the message back.
	WindowDelay time.Duration
	Filtered    int

	since  int64     // when the delivery began
	hub    *Hub      // nil: the frames belong to the Message
	frames []encoded // a list of Hub.spareFrames
}

// Tell counts what subscribers took or skipped since the last call. c may be nil.
func (d *Delivery) Tell(c Counter) {
	if c == nil {
		return
	}
	for i := range d.frames {
		e := &d.frames[i]
		if e.taken > 0 && e.err == nil {
			c.Sent(d.Channel, d.Kind, e.framer, e.taken, e.taken*e.size)
		}
		e.taken = 0
	}
	if d.Filtered > 0 {
		c.Filtered(d.Channel, d.Filtered)
		d.Filtered = 0
	}
}

func (d *Delivery) done(c Counter) {
	d.Tell(c)
	if c != nil && d.Kind == KindPublication {
		c.Done(d.Channel, d.since, d.Pub)
	}
}

// Frame returns the message for connections of f. It is encoded once per loop and shared: the caller must not modify it,
// nor keep it beyond the turn. The error is codec.ErrNotJSON or another reason why this encoding cannot carry it.
func (d *Delivery) Frame(f transport.Framer, form Form) ([]byte, error) {
	for i := range d.frames {
		if l := &d.frames[i]; l.is(f, form) {
			l.taken++
			return l.frame, l.err
		}
	}
	d.frames = append(d.frames, d.make(f, form))
	l := &d.frames[len(d.frames)-1]
	return l.frame, l.err
}

// make puts the frame behind the one before, so that subscribers get both as one piece. A costly frame is made once for
// all loops.
func (d *Delivery) make(f transport.Framer, form Form) (l encoded) {
	switch {
	case d.hub == nil:
		l = d.shared(f, form)
	case f.Costly():
		if l = d.shared(f, form); l.err == nil {
			l.frame = d.hub.arena.Commit(l.frame)
		}
	default:
		l.framer, l.form = f, form
		l.frame, l.size, l.err = d.encode(d.hub.arena, f, form, d.Prev)
	}
	l.taken = 1
	return l
}

// shared is Frame for any goroutine, whose callers may keep it.
func (m *Message) shared(f transport.Framer, form Form) encoded {
	if v := find(m.variants.Load(), f, form); v != nil {
		return v.encoded
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	head := m.variants.Load()
	if v := find(head, f, form); v != nil {
		return v.encoded
	}
	v := &variant{encoded{framer: f, form: form}, head}
	v.frame, v.size, v.err = m.encode(nil, f, form, m.Prev)
	m.variants.Store(v)
	return v.encoded
}

func find(v *variant, f transport.Framer, form Form) *variant {
	for ; v != nil; v = v.next {
		if v.is(f, form) {
			return v
		}
	}
	return nil
}

type scratch struct {
	reply protocol.Reply
	push  protocol.Push
	pub   protocol.Publication
	join  protocol.Join
	leave protocol.Leave
	text  []byte
	patch []byte
	head  []byte // of a batch
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// encode uses a, or memory of its own if a is nil. size is without envelope.
func (m *Message) encode(a *sendqueue.Arena, f transport.Framer, form Form, base *channel.Publication) (frame []byte, size int, err error) {
	if a != nil {
		buf, err := m.append(headroom(a.Tail(m.size()), f), f.Encoding(), form, base)
		if err != nil {
			return nil, 0, err
		}
		size = len(buf) - f.Headroom()
		return a.Commit(f.Frame(m.appendBookmark(buf, form))), size, nil
	}
	p := buffers.Get().(*[]byte)
	buf, err := m.append(headroom((*p)[:0], f), f.Encoding(), form, base)
	if err == nil {
		size = len(buf) - f.Headroom()
		buf = m.appendBookmark(buf, form)
		frame = f.Frame(bytes.Clone(buf)) // one exact allocation
	}
	if cap(buf) <= keepScratch {
		*p = buf
		buffers.Put(p)
	}
	return frame, size, err
}

func (m *Message) appendBookmark(buf []byte, form Form) []byte {
	switch {
	case form&Open != 0:
		return append(buf, '\n')
	case form&Bookmarked != 0 && m.Kind == KindPublication && m.Pub.Offset > 0:
		return bookmark.Add(append(buf, "\n"+bookmark.Prefix...), m.Channel, m.Pub.Offset, m.Epoch)
	}
	return buf
}

func headroom(buf []byte, f transport.Framer) []byte {
	return append(buf, make([]byte, f.Headroom())...) // this make does not allocate
}

func (m *Message) append(buf []byte, e protocol.Encoding, form Form, base *channel.Publication) ([]byte, error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	s.begin(m, form)
	switch m.Kind {
	case KindJoin:
		s.join.Info = m.Info
		s.push.Join = &s.join
	case KindLeave:
		s.leave.Info = m.Info
		s.push.Leave = &s.leave
	default:
		s.push.Pub = &s.pub
		if err := s.publication(m, e, form, base); err != nil {
			return nil, err
		}
	}
	return s.encode(buf, e, form)
}

func (s *scratch) encode(buf []byte, e protocol.Encoding, form Form) ([]byte, error) {
	if form&Bare != 0 {
		return codec.For(e).AppendPush(buf, &s.push)
	}
	return codec.For(e).AppendReply(buf, &s.reply)
}

// appendBatch appends publications of one channel, separated. size is of the messages alone.
func (s *scratch) appendBatch(buf []byte, list []Delivery, e protocol.Encoding, form Form) (_ []byte, size int, err error) {
	s.begin(list[0].Message, form)
	s.push.Pub = &s.pub
	var head []byte
	tail := "}}" // behind a publication in JSON
	if form&Bare != 0 {
		tail = "}"
	}
	if e == protocol.JSON {
		s.pub = protocol.Publication{}
		if s.head, err = s.encode(s.head[:0], e, form); err != nil {
			return nil, 0, err
		}
		head = s.head[:len(s.head)-len("{}")-len(tail)]
	}
	for i := range list {
		if i > 0 {
			buf = sendqueue.Separate(buf, e)
		}
		if err = s.publication(list[i].Message, e, form, nil); err != nil {
			return nil, 0, err
		}
		size -= len(buf)
		if head == nil {
			buf, err = s.encode(buf, e, form)
		} else {
			buf, err = s.pub.AppendJSON(append(buf, head...))
			buf = append(buf, tail...)
		}
		if err != nil {
			return nil, 0, err
		}
		size += len(buf)
		buf = list[i].appendBookmark(buf, form)
	}
	return buf, size, nil
}

func (s *scratch) begin(m *Message, form Form) {
	s.push = protocol.Push{}
	s.reply.Push = &s.push
	if form&Compact != 0 && m.ID > 0 {
		s.push.ID = m.ID
	} else {
		s.push.Channel = m.Channel
	}
}

func (s *scratch) publication(m *Message, e protocol.Encoding, form Form, base *channel.Publication) (err error) {
	fillPublication(&s.pub, m.Pub)
	s.pub.Epoch, s.pub.Delta = "", false
	if m.Pub.Offset == 1 {
		s.pub.Epoch = m.Epoch
	}
	if form&(Escaped|Patched) == 0 {
		return nil
	}
	if form&Patched == 0 {
		base = nil
	}
	s.pub.Data, s.pub.Delta, err = deltaData(&s.patch, &s.text, e, base, m.Pub)
	s.pub.DataChecked = true
	return err
}

// removedJSON is the data of a removal for JSON clients with delta compression: centrifuge-js parses it.
var removedJSON = []byte(`"null"`)

// deltaData returns p's data for delta compression: as a patch against prev, which may be nil, if that is smaller. patch
// and text are scratch space, which the result may use. For a JSON client the result is a JSON string, and the error is
// codec.ErrNotJSON if it could not read the data.
func deltaData(patch, text *[]byte, e protocol.Encoding, prev, p *channel.Publication) (out []byte, isPatch bool, err error) {
	out = p.Data
	if e == protocol.JSON && prev != nil && !prev.Checked && !codec.ValidJSON(prev.Data) {
		prev = nil // the client did not get it
	}
	if prev != nil && !prev.Removed && !p.Removed {
		*patch = fossil.Append((*patch)[:0], prev.Data, p.Data)
		// The patch of a text is a text, so a JSON string can hold it.
		if len(*patch) < len(p.Data) {
			out, isPatch = *patch, true
		}
	}
	switch {
	case e == protocol.JSON && p.Removed && len(out) == 0:
		return removedJSON, false, nil
	case e == protocol.Protobuf || len(out) == 0:
		return out, isPatch, nil
	}
	// The JSON string below is well-formed for any data, so the data is checked here.
	if !p.Checked && !codec.ValidJSON(p.Data) {
		return nil, false, codec.ErrNotJSON
	}
	*text = codec.AppendJSONString((*text)[:0], out)
	return *text, isPatch, nil
}

// Push returns the message as a plain push, which shares the payload; nil for a check.
func (m *Message) Push() *protocol.Push {
	p := &protocol.Push{Channel: m.Channel}
	switch m.Kind {
	case KindPublication:
		p.Pub = new(protocol.Publication)
		fillPublication(p.Pub, m.Pub)
	case KindJoin:
		p.Join = &protocol.Join{Info: m.Info}
	case KindLeave:
		p.Leave = &protocol.Leave{Info: m.Info}
	default:
		return nil
	}
	return p
}

func fillPublication(dst *protocol.Publication, p *channel.Publication) {
	dst.Data, dst.DataChecked = p.Data, p.Checked
	dst.Info = p.Info
	dst.Offset = p.Offset
	dst.Tags = p.Tags
	dst.Channel = p.Channel
	dst.Key = p.Key
	dst.Removed = p.Removed
	dst.Score = p.Score
	dst.Version = p.Version
}

const keepScratch = 64 << 10

func (s *scratch) release() {
	text, patch, head := s.text, s.patch, s.head
	*s = scratch{head: head}
	if cap(text) <= keepScratch {
		s.text = text
	}
	if cap(patch) <= keepScratch {
		s.patch = patch
	}
	scratches.Put(s)
}

// buffers are for frames that are then copied to memory of their size.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}
