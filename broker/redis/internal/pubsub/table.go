package pubsub

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// ErrDisconnected is the error of a Subscribe without a connection.
var ErrDisconnected = errors.New("not connected")

var errMoved = errors.New("the server ended a subscription")

const (
	maxPerCommand = 512      // channels
	maxWrite      = 64 << 10 // bytes gathered for a write, about
)

type kind uint8

const (
	subscribe kind = iota
	unsubscribe
)

type call struct {
	kind     kind
	boot     bool // the first call of a connection, for everything that is subscribed
	channels []string
	seq      uint64 // in the order of calls
	sent     int    // channels that are in a command
	left     int    // channels without an answer
	err      error
	done     chan struct{} // closed when left is 0
}

// segment is a part of a call in one command, until that is answered. Without call it is a PING.
type segment struct {
	call   *call
	lo, hi int
	first  bool // the command begins here, and nothing of it is answered yet
	last   bool // the command ends here
}

type entry struct {
	seq uint64 // of the last call for the channel
	on  bool   // confirmed
}

// table knows the subscriptions. The last call for a channel counts: if that is a Subscribe that fails, the channel is
// not subscribed.
type table struct {
	name    string
	verbs   [2]string // by kind
	mu      sync.Mutex
	seq     uint64
	entries map[string]entry
	current *connection // nil while there is no connection
	down    error       // why there is no connection
	queue   []*call
	pending []segment // in the order of the commands
	ping    bool      // the connection must send a PING
}

func newTable(name string, sharded bool) *table {
	t := &table{name: name, verbs: [2]string{"SUBSCRIBE", "UNSUBSCRIBE"}, entries: make(map[string]entry), down: errors.New("not started")}
	if sharded {
		t.verbs = [2]string{"SSUBSCRIBE", "SUNSUBSCRIBE"}
	}
	return t
}

func (t *table) open(cn *connection, canaries string) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	channels := make([]string, 1, 1+len(t.entries))
	channels[0] = canaries
	for ch := range t.entries {
		channels = append(channels, ch)
	}
	boot := &call{kind: subscribe, boot: true, channels: channels, left: len(channels), done: make(chan struct{})}
	t.current, t.down = cn, nil
	t.queue = append(t.queue[:0], boot)
	return boot
}

// close fails the calls that wait, except for unsubscribes.
func (t *table) close(cn *connection, reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != cn {
		return
	}
	t.current, t.down, t.ping = nil, reason, false
	for _, s := range t.pending {
		t.end(s.call, reason)
	}
	for _, c := range t.queue {
		t.end(c, reason)
	}
	t.pending, t.queue = nil, nil
}

func (t *table) connectFailed(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil {
		t.down = reason
	}
}

func (t *table) end(c *call, reason error) {
	if c == nil || c.left == 0 {
		return
	}
	switch {
	case c.kind == unsubscribe:
		for _, ch := range c.channels {
			t.confirmOff(c, ch)
		}
	case c.err == nil:
		c.err = fmt.Errorf("%s: %w before the subscription was confirmed: %w", t.name, ErrDisconnected, reason)
	}
	c.left = 0
	t.complete(c)
}

// submit returns nil if there is nothing to wait for.
func (t *table) submit(k kind, channels []string) (*call, error) {
	for _, ch := range channels {
		if ch == "" || len(ch) > maxChannelName {
			return nil, fmt.Errorf("%s: channel name of %d bytes: must have 1 to %d", t.name, len(ch), maxChannelName)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if k == unsubscribe {
		return t.submitOff(channels), nil
	}
	if t.current == nil {
		return nil, fmt.Errorf("%s: %w: %w", t.name, ErrDisconnected, t.down)
	}
	return t.enqueue(k, append([]string(nil), channels...)), nil
}

func (t *table) submitOff(channels []string) *call {
	var known []string
	for _, ch := range channels {
		if _, ok := t.entries[ch]; ok {
			known = append(known, ch)
		}
	}
	if t.current == nil {
		for _, ch := range known {
			delete(t.entries, ch)
		}
		return nil
	}
	if len(known) == 0 {
		return nil
	}
	return t.enqueue(unsubscribe, known)
}

func (t *table) enqueue(k kind, channels []string) *call {
	t.seq++
	c := &call{kind: k, channels: channels, seq: t.seq, left: len(channels), done: make(chan struct{})}
	for _, ch := range channels {
		t.entries[ch] = entry{seq: c.seq, on: t.entries[ch].on}
	}
	t.queue = append(t.queue, c)
	enginekit.Signal(t.current.wake)
	return c
}

// abandon makes a call fail whose caller does not wait any more, unless it was answered meanwhile.
func (t *table) abandon(c *call, reason error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.left > 0 && c.err == nil {
		c.err = reason
	}
	return c.err
}

// complete: a Subscribe that failed leaves no channel subscribed.
func (t *table) complete(c *call) {
	if c.kind == subscribe && !c.boot && c.err != nil {
		var on []string
		for _, ch := range c.channels {
			switch e, ok := t.entries[ch]; {
			case !ok || e.seq != c.seq:
			case e.on && t.current != nil:
				on = append(on, ch)
			default:
				delete(t.entries, ch)
			}
		}
		if len(on) > 0 {
			t.enqueue(unsubscribe, on)
		}
	}
	close(c.done)
}

func (t *table) confirm(cn *connection, k kind, channel []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != cn {
		return nil
	}
	if len(t.pending) == 0 || !t.pending[0].awaits(k, channel) {
		if k == unsubscribe {
			return fmt.Errorf("%w: %.200q", errMoved, channel)
		}
		return fmt.Errorf("unexpected confirmation of %.200q", channel)
	}
	s := &t.pending[0]
	c, ch := s.call, s.call.channels[s.lo]
	s.lo++
	s.first = false
	if s.lo == s.hi {
		t.pop()
	}
	if k == unsubscribe {
		t.confirmOff(c, ch)
	} else if e, ok := t.entries[ch]; ok {
		e.on = true
		t.entries[ch] = e
	}
	c.left--
	if c.left == 0 {
		t.complete(c)
	}
	return nil
}

func (s *segment) awaits(k kind, channel []byte) bool {
	return s.call != nil && s.call.kind == k && s.call.channels[s.lo] == string(channel)
}

func (t *table) pop() {
	t.pending[0] = segment{}
	t.pending = t.pending[1:]
}

func (t *table) confirmOff(c *call, ch string) {
	switch e, ok := t.entries[ch]; {
	case !ok:
	case e.seq == c.seq:
		delete(t.entries, ch)
	default:
		t.entries[ch] = entry{seq: e.seq}
	}
}

// reject returns an error if the connection must end.
func (t *table) reject(cn *connection, sharded bool, text []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != cn {
		return nil
	}
	err := fmt.Errorf("redis answered: %.200s", text)
	if len(t.pending) == 0 || !t.pending[0].first {
		return err
	}
	for last := false; !last; {
		s := t.pending[0]
		last = s.last
		if s.call == nil { // a PING that is not permitted: the error is a sign of life as well
			t.pop()
			return nil
		}
		// With sharded PUB/SUB, the slot has moved, or the Cluster is down.
		if s.call.boot || sharded || s.call.kind == unsubscribe {
			return fmt.Errorf("%s: %w", t.verbs[s.call.kind], err)
		}
		t.pop()
		if s.call.err == nil {
			s.call.err = fmt.Errorf("%s: %s %.200q: %w", t.name, t.verbs[subscribe], s.call.channels[s.lo], err)
		}
		s.call.left -= s.hi - s.lo
		if s.call.left == 0 {
			t.complete(s.call)
		}
	}
	return nil
}

func (t *table) requestPing(cn *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == cn {
		t.ping = true
		enginekit.Signal(cn.wake)
	}
}

func (t *table) pong(cn *connection) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != cn {
		return nil
	}
	if len(t.pending) == 0 || t.pending[0].call != nil {
		return errors.New("unexpected answer of a PING")
	}
	t.pop()
	return nil
}

// commands appends the next commands, about maxWrite bytes at most.
func (t *table) commands(cn *connection, buf []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != cn {
		return buf
	}
	if t.ping {
		t.ping = false
		buf = append(buf, "*1\r\n$4\r\nPING\r\n"...)
		t.pending = append(t.pending, segment{first: true, last: true})
	}
	for len(t.queue) > 0 && len(buf) < maxWrite {
		buf = t.command(buf)
	}
	if len(t.queue) == 0 {
		t.queue = nil
	}
	return buf
}

// command appends one command for calls of one kind.
func (t *table) command(buf []byte) []byte {
	kind, n, begin := t.queue[0].kind, 0, len(t.pending)
	for len(t.queue) > 0 && t.queue[0].kind == kind && n < maxPerCommand {
		c := t.queue[0]
		hi := min(len(c.channels), c.sent+maxPerCommand-n)
		t.pending = append(t.pending, segment{call: c, lo: c.sent, hi: hi})
		n += hi - c.sent
		c.sent = hi
		if hi == len(c.channels) {
			t.queue[0] = nil
			t.queue = t.queue[1:]
		}
	}
	parts := t.pending[begin:]
	parts[0].first, parts[len(parts)-1].last = true, true
	buf = append(buf, '*')
	buf = strconv.AppendInt(buf, int64(n+1), 10)
	buf = append(buf, "\r\n"...)
	buf = resp.AppendBulk(buf, t.verbs[kind])
	for _, s := range parts {
		for _, ch := range s.call.channels[s.lo:s.hi] {
			buf = resp.AppendBulk(buf, ch)
		}
	}
	return buf
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}
