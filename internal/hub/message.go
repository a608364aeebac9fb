package hub

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/delta"
	"github.com/gyrohq/gyro/internal/outbox"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// Kind of a message.
type Kind uint8

const (
	KindPublication Kind = iota
	KindJoin
	KindLeave
	// KindCheck tells positioned subscribers where the top of the stream was; nobody
	// else. It is for a comparison, and never goes out to a client.
	KindCheck
)

// Form is the shape in which a subscriber wants publications.
type Form uint8

const (
	// Compact replaces the channel's name by its numeric ID.
	Compact Form = 1 << iota
	// Escaped is for subscribers that negotiated delta compression: on JSON
	// connections data is a string, also when it is the full payload
	// (recovery.md 9.1).
	Escaped
	// Patched sends the difference to the previous publication instead of the
	// payload, where that is possible and smaller. It implies Escaped.
	Patched
	// Bare sends the push without the reply around it: for one-way connections.
	Bare
)

// Message is what goes to the subscribers of a channel. The fields are set
// before the message is posted to the first loop and constant from then on. One that
// NewMessage made is used again when all loops are through with it, unless somebody
// keeps it.
type Message struct {
	Channel string
	Kind    Kind
	// Round of a check, in which the top was read.
	Round uint32
	// Pub and Epoch of a publication; Prev is the base for a patch, or nil. Of a check,
	// Epoch and Pub.Offset are the top.
	Pub   *channel.Publication
	Epoch string
	Prev  *channel.Publication
	// Info of the client that joined or left.
	Info *channel.ClientInfo
	// ID replaces the channel in compact form.
	ID int64
	// Memory that Pub, Prev and Info lie in, or nil.
	Memory channel.Memory

	// loops that are not through with it: changed atomically once it is posted.
	loops int32
	fresh bool // made by NewMessage
	kept  atomic.Bool

	mu       sync.Mutex
	variants atomic.Pointer[variant]
}

// variant is the message encoded for one framer and form. Nearly every message
// has one or two of them, so a list beats a map.
type variant struct {
	framer transport.Framer
	form   Form
	frame  []byte
	err    error
	next   *variant
}

// messages are for later.
var messages = sync.Pool{New: func() any { return new(Message) }}

// NewMessage returns an empty message. Share says how many loops get it; the caller posts
// it to each of them.
func NewMessage() *Message {
	m := messages.Get().(*Message)
	m.fresh = true
	return m
}

// Share says how many loops the message is going to be posted to. Of none, it ends.
func (m *Message) Share(loops int) {
	m.loops = int32(loops)
	if loops == 0 {
		m.end()
	}
}

// Keep is for a subscriber that needs the message beyond its delivery.
func (m *Message) Keep() { m.kept.Store(true) }

// leave is called when a loop is through with the message, and reports whether nobody
// needs it any more.
func (m *Message) leave() bool {
	if !m.fresh || atomic.LoadInt32(&m.loops) > 1 && atomic.AddInt32(&m.loops, -1) > 0 {
		return false
	}
	return !m.kept.Load()
}

// done is leave for one message.
func (m *Message) done() {
	if m.leave() {
		m.end()
	}
}

// end of a message that nobody needs.
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

// Delivery is a message on its way through one loop, with the frames that the loop
// made of it.
type Delivery struct {
	*Message
	// Held is for how long the message may have been held back on purpose.
	Held   time.Duration
	arena  *outbox.Arena // nil: use frames of the message
	frames []localFrame  // in memory of the hub
}

type localFrame struct {
	framer transport.Framer
	form   Form
	frame  []byte
	err    error
}

// Frame returns the message as it goes out to a connection of this framer. It is
// encoded once per loop and shared: the caller must not modify it, nor keep it
// beyond the turn. The error is codec.ErrNotJSON or another reason why this
// encoding cannot carry it.
func (d *Delivery) Frame(f transport.Framer, form Form) ([]byte, error) {
	if d.arena == nil {
		return d.Message.Frame(f, form)
	}
	for i := range d.frames {
		if l := &d.frames[i]; l.framer == f && l.form == form {
			return l.frame, l.err
		}
	}
	d.frames = append(d.frames, localFrame{})
	return d.frames[len(d.frames)-1].make(d, f, form)
}

// make puts the frame into the loop's arena: behind the one of the message before,
// so that subscribers get both as one piece. What took long to make is shared by
// all loops.
func (l *localFrame) make(d *Delivery, f transport.Framer, form Form) ([]byte, error) {
	l.framer, l.form = f, form
	if f.Costly() {
		if l.frame, l.err = d.Message.Frame(f, form); l.err == nil {
			l.frame = d.arena.Commit(l.frame)
		}
	} else {
		l.frame, l.err = d.encode(d.arena, f, form)
	}
	return l.frame, l.err
}

// Frame is Delivery.Frame for any goroutine. The frame may be kept; it is encoded
// once and shared by all.
func (m *Message) Frame(f transport.Framer, form Form) ([]byte, error) {
	if v := find(m.variants.Load(), f, form); v != nil {
		return v.frame, v.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	head := m.variants.Load()
	if v := find(head, f, form); v != nil {
		return v.frame, v.err
	}
	v := &variant{framer: f, form: form, next: head}
	v.frame, v.err = m.encode(nil, f, form)
	m.variants.Store(v)
	return v.frame, v.err
}

func find(v *variant, f transport.Framer, form Form) *variant {
	for ; v != nil; v = v.next {
		if v.framer == f && v.form == form {
			return v
		}
	}
	return nil
}

// scratch holds the structures that describe a push while it is encoded.
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

// encode makes a frame, in a if that is not nil.
func (m *Message) encode(a *outbox.Arena, f transport.Framer, form Form) ([]byte, error) {
	if a != nil {
		buf, err := m.append(headroom(a.Tail(m.size()), f), f.Encoding(), form)
		if err != nil {
			return nil, err
		}
		return a.Commit(f.Frame(buf)), nil
	}
	p := buffers.Get().(*[]byte)
	buf, err := m.append(headroom((*p)[:0], f), f.Encoding(), form)
	var frame []byte
	if err == nil {
		frame = f.Frame(bytes.Clone(buf)) // one exact allocation
	}
	if cap(buf) <= keepScratch {
		*p = buf
		buffers.Put(p)
	}
	return frame, err
}

// headroom leaves the room that f needs in front.
func headroom(buf []byte, f transport.Framer) []byte {
	return append(buf, make([]byte, f.Headroom())...) // on the spot: no allocation
}

// append appends the message in an encoding.
func (m *Message) append(buf []byte, e protocol.Encoding, form Form) ([]byte, error) {
	s := scratches.Get().(*scratch)
	defer s.release()
	return s.append(buf, m, e, form)
}

func (s *scratch) append(buf []byte, m *Message, e protocol.Encoding, form Form) ([]byte, error) {
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
		if err := s.publication(m, e, form); err != nil {
			return nil, err
		}
	}
	return s.encode(buf, e, form)
}

// encode appends the push that begin began.
func (s *scratch) encode(buf []byte, e protocol.Encoding, form Form) ([]byte, error) {
	if form&Bare != 0 {
		return codec.For(e).AppendPush(buf, &s.push)
	}
	return codec.For(e).AppendReply(buf, &s.reply)
}

// appendBatch appends publications of one channel, separated.
func (s *scratch) appendBatch(buf []byte, list []Delivery, e protocol.Encoding, form Form) (_ []byte, err error) {
	s.begin(list[0].Message, form)
	s.push.Pub = &s.pub
	var head []byte
	tail := "}}" // what stands behind a publication in JSON
	if form&Bare != 0 {
		tail = "}"
	}
	if e == protocol.JSON {
		// What is around the publications is the same for all, and made once.
		s.pub = protocol.Publication{}
		if s.head, err = s.encode(s.head[:0], e, form); err != nil {
			return nil, err
		}
		head = s.head[:len(s.head)-len("{}")-len(tail)]
	}
	for i := range list {
		if i > 0 {
			buf = outbox.Separate(buf, e)
		}
		if err = s.publication(list[i].Message, e, form); err != nil {
			return nil, err
		}
		if head == nil {
			buf, err = s.encode(buf, e, form)
		} else {
			buf, err = s.pub.AppendJSON(append(buf, head...))
			buf = append(buf, tail...)
		}
		if err != nil {
			return nil, err
		}
	}
	return buf, nil
}

// begin begins a push in the channel of m.
func (s *scratch) begin(m *Message, form Form) {
	s.push = protocol.Push{}
	s.reply.Push = &s.push
	if form&Compact != 0 && m.ID > 0 {
		s.push.ID = m.ID
	} else {
		s.push.Channel = m.Channel
	}
}

// publication sets pub to what clients see of m.
func (s *scratch) publication(m *Message, e protocol.Encoding, form Form) (err error) {
	FillPublication(&s.pub, m.Pub)
	s.pub.Epoch, s.pub.Delta = "", false
	if m.Pub.Offset == 1 {
		s.pub.Epoch = m.Epoch
	}
	if form&(Escaped|Patched) == 0 {
		return nil
	}
	var prev *channel.Publication
	if form&Patched != 0 {
		prev = m.Prev
	}
	s.pub.Data, s.pub.Delta, err = DeltaData(&s.patch, &s.text, e, prev, m.Pub)
	return err
}

// DeltaData returns p's data in the shape of a subscription with delta
// compression: as a patch against prev (nil if there is none) if the patch is
// usable and smaller, else in full. patch and text are scratch space that the
// result may lie in. The error is codec.ErrNotJSON if a JSON client could not
// read the data.
func DeltaData(patch, text *[]byte, e protocol.Encoding, prev, p *channel.Publication) (out []byte, isPatch bool, err error) {
	out = p.Data
	if prev != nil && !prev.Removed && !p.Removed {
		*patch = delta.Append((*patch)[:0], prev.Data, p.Data)
		// The patch of a text is a text, so a JSON string can hold it.
		if len(*patch) < len(p.Data) {
			out, isPatch = *patch, true
		}
	}
	if e == protocol.Protobuf || len(out) == 0 {
		return out, isPatch, nil
	}
	// Within a string anything would look well-formed.
	if !codec.ValidJSON(p.Data) {
		return nil, false, codec.ErrNotJSON
	}
	*text = codec.AppendJSONString((*text)[:0], out)
	return *text, isPatch, nil
}

// FillPublication copies what clients see of p.
func FillPublication(dst *protocol.Publication, p *channel.Publication) {
	dst.Data = p.Data
	dst.Info = p.Info
	dst.Offset = p.Offset
	dst.Tags = p.Tags
	dst.Channel = p.Channel
	dst.Key = p.Key
	dst.Removed = p.Removed
	dst.Score = p.Score
	dst.Version = p.Version
}

// Scratch space above this size is not kept.
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

// buffers are where frames that are kept are encoded, before they are cut to size.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}
