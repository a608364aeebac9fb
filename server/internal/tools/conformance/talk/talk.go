// Package talk is a client of the protocol that judges nothing but frames: it sends frames, malformed or not, hands over
// the received messages in their order, and keeps a transcript.
package talk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// End is how a connection ended.
type End struct {
	// Of the close frame or of the disconnect push; 0 if there was none.
	Code   uint32
	Reason string
	// Err is the error of the connection below the protocol.
	Err error
}

// Violation is a frame that the protocol does not allow.
type Violation struct {
	Section string
	Text    string
}

// Error implements error.
func (v *Violation) Error() string { return v.Text }

// ErrTimeout says that nothing came in time.
var ErrTimeout = errors.New("nothing came in time")

type received struct {
	reply *protocol.Reply
	at    time.Time
}

// Conn is a connection. One goroutine uses it at a time.
type Conn struct {
	Encoding protocol.Encoding
	conn     carrier
	dialer   *Dialer
	codec    codec.ClientCodec
	script   *Script
	name     string

	answers atomic.Bool // pings are answered

	mu     sync.Mutex
	queue  []received
	end    *End
	broken *Violation
	news   chan struct{} // has an element when something came
	done   chan struct{} // closed when the connection has ended
}

// Dial opens a connection with a first frame; WebSockets send none if it is nil. The messages go to script, under name.
func Dial(ctx context.Context, d *Dialer, first []byte, script *Script, name string) (*Conn, error) {
	c := &Conn{
		Encoding: d.Encoding, dialer: d, codec: codec.ForClient(d.Encoding), script: script, name: name,
		news: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if first != nil {
		script.add(name, "→", sent(d.Encoding, first))
	}
	var err error
	if c.conn, err = d.open(ctx, first); err != nil {
		return nil, err
	}
	go c.serve()
	return c, nil
}

// Frame encodes commands as one frame.
func Frame(e protocol.Encoding, cmds ...*protocol.Command) ([]byte, error) {
	b, cc := []byte{}, codec.ForClient(e)
	for i, cmd := range cmds {
		if i > 0 && e == protocol.JSON {
			b = append(b, '\n')
		}
		var err error
		if b, err = cc.AppendCommand(b, cmd); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Send sends a frame. An error shows by Next alone.
func (c *Conn) Send(frame []byte) {
	c.script.add(c.name, "→", sent(c.Encoding, frame))
	if err := c.conn.SendFrame(frame); err != nil {
		c.script.add(c.name, "→", "not sent: "+err.Error())
	}
}

// Answer tells whether pings are answered, at once, from now on.
func (c *Conn) Answer(pings bool) { c.answers.Store(pings) }

// Address tells where the commands of emulated transports go.
func (c *Conn) Address(node, session string) { c.conn.Address(node, session) }

// Next returns the next reply and when it came. It fails with ErrTimeout, a *Violation, or an *EndError.
func (c *Conn) Next(ctx context.Context, within time.Duration) (*protocol.Reply, time.Time, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			r := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return r.reply, r.at, nil
		}
		broken, end := c.broken, c.end
		c.mu.Unlock()
		switch {
		case broken != nil:
			return nil, time.Time{}, broken
		case end != nil:
			return nil, time.Time{}, &EndError{*end}
		}
		select {
		case <-c.news:
		case <-timer.C:
			return nil, time.Time{}, ErrTimeout
		case <-ctx.Done():
			return nil, time.Time{}, context.Cause(ctx)
		}
	}
}

// EndError says that the connection has ended.
type EndError struct{ End }

// Error tells how.
func (e *EndError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("the connection ended without a code: %v", e.Err)
	}
	return fmt.Sprintf("the server closed the connection: %d %q", e.Code, e.Reason)
}

// Close ends the connection and waits until nothing comes any more.
func (c *Conn) Close() {
	c.conn.Cut()
	<-c.done
}

func (c *Conn) serve() {
	defer close(c.done)
	var last *protocol.Disconnect
	err := c.conn.Serve(func(frame []byte) error {
		now := time.Now()
		c.script.add(c.name, "←", got(c.Encoding, frame))
		replies, broken := c.split(frame)
		c.pong(replies)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range replies {
			if last != nil {
				broken = &Violation{SectionClosing, "a message comes behind the disconnect push, which is the last one"}
				break
			}
			if r.Push != nil && r.Push.Disconnect != nil && c.dialer.pushed() {
				last = r.Push.Disconnect
				continue
			}
			c.queue = append(c.queue, received{r, now})
		}
		if broken != nil {
			c.broken = broken
			return broken
		}
		c.notify()
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = &End{Err: err}
	var closed *wire.CloseError
	var broken *Violation
	switch {
	case errors.As(err, &broken):
		c.broken = broken
	case errors.As(err, &closed) && closed.Code != wire.StatusNone:
		c.end.Code, c.end.Reason = closed.Code, closed.Reason
		if last != nil && (last.Code != c.end.Code || last.Reason != c.end.Reason) {
			c.broken = &Violation{SectionClosing, fmt.Sprintf("the disconnect push has %d %q, the close %d %q", last.Code, last.Reason, closed.Code, closed.Reason)}
		}
	case last != nil:
		c.end.Code, c.end.Reason = last.Code, last.Reason
	}
	c.script.add(c.name, "←", (&EndError{*c.end}).Error())
	c.notify()
}

func (c *Conn) pong(replies []*protocol.Reply) {
	for _, r := range replies {
		if r.ID == 0 && r.Push == nil && r.Error == nil && c.answers.Load() {
			pong, _ := Frame(c.Encoding, &protocol.Command{}) // it has a form
			c.Send(pong)
		}
	}
}

func (c *Conn) notify() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

const (
	SectionFrames  = "protocol-rules.md#frames"
	SectionClosing = "protocol-rules.md#closing"
)

// split takes a frame apart, and judges its framing.
func (c *Conn) split(frame []byte) (replies []*protocol.Reply, broken *Violation) {
	refuse := func(text string) ([]*protocol.Reply, *Violation) { return replies, &Violation{SectionFrames, text} }
	if c.Encoding == protocol.JSON {
		if c.dialer.linesEnd() { // events are without the end
			frame = bytes.TrimSuffix(frame, []byte("\n"))
		}
		switch {
		case bytes.HasSuffix(frame, []byte("\n")):
			return refuse("a JSON frame ends with a line break")
		case !utf8.Valid(frame):
			return refuse("a JSON frame is not UTF-8")
		}
	}
	if len(frame) == 0 {
		return refuse("a frame is empty")
	}
	for len(frame) > 0 {
		if c.Encoding == protocol.JSON {
			line, _, _ := bytes.Cut(frame, []byte("\n"))
			if !codec.ValidJSON(line) {
				return refuse(fmt.Sprintf("a line is not one JSON value: %.200q", line))
			}
		}
		r := new(protocol.Reply)
		rest, err := c.decode(frame, r)
		if err != nil {
			return refuse(fmt.Sprintf("a message cannot be decoded: %v: %.200q", err, frame))
		}
		replies, frame = append(replies, r), rest
	}
	return replies, nil
}
