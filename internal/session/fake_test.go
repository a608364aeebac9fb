package session_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/clientmetrics"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/observe"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// framer separates JSON messages by line breaks; Protobuf messages carry their
// length anyway.
type framer protocol.Encoding

func (f *framer) Encoding() protocol.Encoding { return protocol.Encoding(*f) }
func (f *framer) Headroom() int               { return 0 }
func (f *framer) Costly() bool                { return false }
func (f *framer) Frame(buf []byte) []byte {
	if f.Encoding() == protocol.JSON {
		buf = append(buf, '\n')
	}
	return buf
}

var framers = [2]transport.Framer{new(framer), func() *framer { f := framer(protocol.Protobuf); return &f }()}

// bookFramer is a framer whose connections may use a dictionary: its clients have the profile p.
type bookFramer struct{ framer }

func (f *bookFramer) Dictionaries() []transport.Dictionary { return []transport.Dictionary{new(book)} }

// book is a dictionary whose frames begin with mark.
type book struct{}

const mark = 1

func (b *book) ID() string               { return "D" }
func (b *book) Framer() transport.Framer { return new(markingFramer) }
func (b *book) Offer(req *protocol.ConnectRequest, user string) *protocol.Dictionary {
	switch {
	case req.Profile != "p" || user == "":
		return nil
	case req.Dict == b.ID():
		return &protocol.Dictionary{ID: b.ID()}
	}
	return &protocol.Dictionary{ID: b.ID(), DataB64: "data"}
}

type markingFramer struct{ framer }

func (f *markingFramer) Headroom() int { return 1 }
func (f *markingFramer) Costly() bool  { return true }
func (f *markingFramer) Frame(buf []byte) []byte {
	buf[0] = mark
	return f.framer.Frame(buf)
}

// fakeConn is a connection whose peer takes room bytes; < 0 for all.
type fakeConn struct {
	room   int
	lost   error
	got    []byte
	closed *protocol.Disconnect
	events func(string) // pauses
	bare   bool         // bare pushes are expected
	marked map[*protocol.Reply]bool
}

func (c *fakeConn) Write(frames [][]byte) (n int, err error) {
	if c.closed != nil {
		panic("write after close")
	}
	if c.lost != nil {
		return 0, c.lost
	}
	for _, f := range frames {
		k := len(f)
		if c.room >= 0 {
			k = min(k, c.room)
			c.room -= k
		}
		c.got = append(c.got, f[:k]...)
		if n += k; k < len(f) {
			break
		}
	}
	return n, nil
}

func (c *fakeConn) Close(d protocol.Disconnect, frames [][]byte) {
	if c.closed != nil {
		panic("closed twice")
	}
	c.closed = &d
	c.got = append(c.got, bytes.Join(frames, nil)...)
}

func (c *fakeConn) Pause(on bool) {
	if c.events == nil {
		return
	}
	if on {
		c.events("pause")
	} else {
		c.events("resume")
	}
}

// replies decodes the whole messages that arrived, a bare push as one in a reply; it
// panics at what is not one.
func (c *fakeConn) replies(e protocol.Encoding) []*protocol.Reply {
	var out []*protocol.Reply
	for {
		n := wholeMessage(e, c.got)
		if n == 0 {
			return out
		}
		message := c.got[:n]
		c.got = c.got[n:]
		marked := e == protocol.JSON && message[0] == mark
		if marked {
			message = message[1:]
		}
		if e == protocol.JSON && !codec.ValidJSON(message) {
			panic("not JSON: " + string(message))
		}
		r := new(protocol.Reply)
		var rest []byte
		var err error
		if c.bare {
			r.Push = new(protocol.Push)
			rest, err = codec.ForClient(e).DecodePush(message, r.Push)
		} else {
			rest, err = codec.ForClient(e).DecodeReply(message, r)
		}
		if err != nil || len(rest) > 0 {
			panic(errors.Join(errors.New("undecodable: "+string(message)), err))
		}
		if out = append(out, r); marked {
			if c.marked == nil {
				c.marked = make(map[*protocol.Reply]bool)
			}
			c.marked[r] = true
		}
	}
}

func wholeMessage(e protocol.Encoding, p []byte) int {
	if e == protocol.JSON {
		return bytes.IndexByte(p, '\n') + 1
	}
	size, n := binary.Uvarint(p)
	if n <= 0 || len(p) < n+int(size) {
		return 0
	}
	return n + int(size)
}

// fakeEnv owns one session. Time stands still until the test moves it.
type fakeEnv struct {
	id       string
	s        session.Session
	now      *int64
	ahead    int64 // how far the node's clock is ahead
	hub      *hub.Hub
	pool     *sendqueue.Pool
	scratch  session.Scratch
	random   *rand.Rand // nil: the first moment
	at       int64
	dirty    bool
	refuse   bool // Register fails
	register int  // how often registered
	ended    *protocol.Disconnect
	counts   *clientmetrics.Counter
	again    bool // Resume is due
	held     bool // effects are held
	share    int  // what may be dispatched at a time; 0 for all
	left     int
	do       func(effect.Effect) (done bool)
	refused  func(l observe.Limit, ch string) // nil: nobody cares
	events   func(string)                     // nil: nobody cares
	fed      []*session.Subscription          // those whose feeds run, in order
	// explained gets the arguments of Explain; nil: nobody cares.
	explained func(kind, ch string, why error)
}

func (e *fakeEnv) say(event string) {
	if e.events != nil {
		e.events(event)
	}
}

func (e *fakeEnv) ID() string                { return e.id }
func (e *fakeEnv) Now() int64                { return *e.now }
func (e *fakeEnv) Wall() int64               { return *e.now + e.ahead }
func (e *fakeEnv) Schedule(at int64)         { e.at = at }
func (e *fakeEnv) Dirty()                    { e.dirty = true }
func (e *fakeEnv) Pool() *sendqueue.Pool     { return e.pool }
func (e *fakeEnv) Scratch() *session.Scratch { return &e.scratch }
func (e *fakeEnv) Do(f effect.Effect) bool   { return e.do(f) }
func (e *fakeEnv) Hold(on bool) {
	if e.held == on {
		panic("held already, or not at all")
	}
	if e.held = on; on {
		e.say("hold effects")
	} else {
		e.say("let effects go")
	}
}
func (e *fakeEnv) Unregister()       { e.register-- }
func (e *fakeEnv) SessionID() string { return "secret of " + e.id }
func (e *fakeEnv) Refused(l observe.Limit, ch string) {
	if e.refused != nil {
		e.refused(l, ch)
	}
}
func (e *fakeEnv) Explain(kind, ch string, why error) {
	if why != nil && e.explained != nil {
		e.explained(kind, ch, why)
	}
}
func (e *fakeEnv) Counts() *clientmetrics.Counter                 { return e.counts }
func (e *fakeEnv) Pong(at int64)                                  { e.counts.Pong(&e.s, at) }
func (e *fakeEnv) Note(inspect.Kind, string, uint32, int, string) {}
func (e *fakeEnv) Again()                                         { e.again = true }
func (e *fakeEnv) Gone()                                          { e.say("gone") }
func (e *fakeEnv) Allowance() *int {
	if e.share == 0 {
		e.left = math.MaxInt
	}
	return &e.left
}

func (e *fakeEnv) Phase(n int64) int64 {
	if e.random == nil {
		return (*e.now/int64(time.Second) + 1) % n // as early as can be, if the interval is 25 s
	}
	return e.random.Int64N(n)
}

func (e *fakeEnv) Register(*protocol.ConnectRequest) bool {
	if e.refuse {
		return false
	}
	e.register++
	return true
}

func (e *fakeEnv) Closed(d protocol.Disconnect) {
	if e.ended != nil {
		panic("closed twice")
	}
	e.ended = &d
}

func (e *fakeEnv) Join(b *session.Subscription) { e.hub.Add(b.Channel(), b) }
func (e *fakeEnv) Part(b *session.Subscription) { e.hub.Remove(b) }
func (e *fakeEnv) Feed(b *session.Subscription, _ channel.Feed) {
	e.say("run feed " + b.Channel())
	e.fed = append(e.fed, b)
}
func (e *fakeEnv) Finish(b *session.Subscription) { e.hub.Finish(b) }

// flush ends a turn.
func (e *fakeEnv) flush() {
	if e.dirty {
		e.dirty = false
		e.s.Flush()
	}
}

// resume is the session's turn again.
func (e *fakeEnv) resume() {
	if e.again {
		e.again, e.left = false, e.share
		e.s.Resume()
	}
}
