package simulation

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// redisConn is a connection of a node to the simulated Redis: the end of the node, and what the server knows of it.
type redisConn struct {
	l *redisLink

	mu       sync.Mutex
	cond     *sync.Cond
	use      string // what the first bytes are for, then the name
	in, out  []byte
	err      error
	closed   bool
	deadline time.Time
	timer    *time.Timer

	// Only the scheduler uses these.
	name         string
	upAt, downAt time.Duration
	rest         []byte // an incomplete command
	version      int    // of RESP
	channels     map[string]bool
	lost         bool // nothing passes any more, and neither end knows
	gone         bool // at the server
	greeted      bool // has taken commands
}

func newRedisConn(l *redisLink) *redisConn {
	c := &redisConn{l: l, version: 2, channels: map[string]bool{}}
	c.cond = sync.NewCond(&c.mu)
	return c
}

// Read implements net.Conn.
func (c *redisConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(c.in) > 0:
			n := copy(p, c.in)
			c.in = c.in[n:]
			return n, nil
		case c.err != nil:
			return 0, c.err
		}
		c.cond.Wait()
	}
}

// Write implements net.Conn. The first bytes tell what the connection is for: a connection for commands begins with the
// question who the server is.
func (c *redisConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.err != nil:
		return 0, c.err
	}
	if c.use == "" {
		c.use = "PUB/SUB"
		if bytes.Contains(p, []byte("INFO")) {
			c.use = "commands"
		}
	}
	if len(c.out) == 0 {
		c.l.s.tell(c.l.name+" "+c.use+" up", c.send)
	}
	c.out = append(c.out, p...)
	return len(p), nil
}

// Close implements net.Conn.
func (c *redisConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.cond.Broadcast()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.l.s.tell(c.l.name+" "+c.use+" up", c.send)
	return nil
}

// SetDeadline implements net.Conn.
func (c *redisConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *redisConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.deadline = t
	if !t.IsZero() {
		c.timer = time.AfterFunc(time.Until(t), c.cond.Broadcast)
	}
	return nil
}

// SetWriteDeadline implements net.Conn. Writes never wait.
func (c *redisConn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (c *redisConn) LocalAddr() net.Addr { return address(c.l.name) }

// RemoteAddr implements net.Conn.
func (c *redisConn) RemoteAddr() net.Addr { return address(redisAddress) }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// open tells whether the node has the connection still.
func (c *redisConn) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && !c.closed
}

// send takes what the node has written.
func (c *redisConn) send() {
	c.mu.Lock()
	data, closed := c.out, c.closed
	c.out = nil
	if c.name == "" && c.use != "" {
		c.l.counts[c.use]++
		c.name = fmt.Sprintf("%s %s#%d", c.l.name, c.use, c.l.counts[c.use])
		c.use = c.name[len(c.l.name)+1:]
		c.l.s.open(c)
	}
	c.mu.Unlock()
	if c.name == "" {
		return // closed before the first byte
	}
	if len(data) > 0 {
		c.upAt = max(c.l.s.now()+c.pace("up"), c.upAt)
		c.l.s.after(c.upAt-c.l.s.now(), c.name+" up", func() {
			c.rest = append(c.rest, data...)
			c.l.s.after(1, c.name+" up", c.arrive) // when all has come that comes at this moment
		})
	}
	if closed {
		c.l.s.after(max(c.upAt-c.l.s.now(), 0), c.name+" up", func() { c.l.s.forget(c) })
	}
}

// fate returns the source of chance of what passes at this moment.
func (c *redisConn) fate(way string) *rand.Rand {
	return stream(c.l.s.seed, fmt.Sprint(c.name, " ", way, " ", int64(c.l.s.now())))
}

func (c *redisConn) pace(way string) time.Duration {
	return c.l.s.lag + time.Duration(c.fate(way).Int64N(int64(c.l.s.jitter)+1))
}

// arrive has the server execute the commands in the bytes that have come.
func (c *redisConn) arrive() {
	s := c.l.s
	if wait := s.stalled - s.now(); wait > 0 {
		s.after(wait, c.name+" up", c.arrive)
		return
	}
	if c.gone || c.lost || len(c.rest) == 0 {
		return
	}
	chance := c.fate("chance").IntN(4000)
	if chance < s.fail {
		c.reset()
		return
	}
	answers := s.all(c, c.commands())
	switch {
	case c.gone:
	case chance >= 4000-s.fail: // executed, not answered
		c.reset()
	case chance >= 4000-s.fail-s.mute:
		s.log.add(c.name, "redis: lost without a word")
		c.lost = true
	default:
		for _, a := range answers { // one after the other: each wakes a goroutine
			c.down(a)
		}
	}
}

// commands takes the complete commands: arrays of strings.
func (c *redisConn) commands() (all [][]string) {
	for {
		rest := c.rest
		n, ok := count32(&rest, '*')
		args := make([]string, 0, n)
		for ok && len(args) < n {
			var size int
			if size, ok = count32(&rest, '$'); ok && len(rest) >= size+2 {
				args = append(args, string(rest[:size]))
				rest = rest[size+2:]
			} else {
				ok = false
			}
		}
		if !ok {
			return all
		}
		c.rest = rest
		all = append(all, args)
	}
}

// count32 takes a line with a number.
func count32(data *[]byte, kind byte) (n int, ok bool) {
	line, rest, found := bytes.Cut(*data, []byte("\r\n"))
	if !found {
		return 0, false
	}
	n, err := strconv.Atoi(string(line[1:]))
	if line[0] != kind || err != nil {
		panic(fmt.Sprintf("not a command: %.100q", *data))
	}
	*data = rest
	return n, true
}

// down sends bytes to the node.
func (c *redisConn) down(data []byte) {
	if len(data) == 0 {
		return
	}
	s := c.l.s
	c.downAt = max(s.now()+c.pace("down"), c.downAt)
	greeted := c.version == 3 && strings.HasPrefix(c.use, "commands")
	s.after(c.downAt-s.now(), c.name+" down", func() {
		if c.gone || c.lost {
			return
		}
		c.greeted = greeted
		c.mu.Lock()
		defer c.mu.Unlock()
		c.in = append(c.in, data...)
		c.cond.Broadcast()
	})
}

// reset breaks the connection for both ends.
func (c *redisConn) reset() {
	if c.gone {
		return
	}
	c.l.s.log.add(c.name, "redis: reset")
	c.l.s.forget(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lost {
		c.err = errReset
		c.cond.Broadcast()
	}
}

// encode appends an answer.
func (c *redisConn) encode(buf []byte, answer any) []byte {
	switch a := answer.(type) {
	case string:
		return fmt.Appendf(buf, "$%d\r\n%s\r\n", len(a), a)
	case redisStatus:
		return fmt.Appendf(buf, "+%s\r\n", a)
	case redisError:
		return fmt.Appendf(buf, "-%s\r\n", a)
	case int64:
		return fmt.Appendf(buf, ":%d\r\n", a)
	case redisMap:
		if c.version < 3 {
			return c.encode(buf, []any(a))
		}
		return c.encodeAll(fmt.Appendf(buf, "%%%d\r\n", len(a)/2), a)
	case []any:
		return c.encodeAll(fmt.Appendf(buf, "*%d\r\n", len(a)), a)
	case redisPush:
		kind := byte('>')
		if c.version < 3 {
			kind = '*'
		}
		return c.encodeAll(fmt.Appendf(buf, "%c%d\r\n", kind, len(a)), a)
	case nil:
		if c.version < 3 {
			return append(buf, "$-1\r\n"...)
		}
		return append(buf, "_\r\n"...)
	}
	panic(fmt.Sprintf("an answer of type %T", answer))
}

func (c *redisConn) encodeAll(buf []byte, list []any) []byte {
	for _, v := range list {
		buf = c.encode(buf, v)
	}
	return buf
}

// redisPush is an event for a connection that subscribes.
type redisPush []any

// executionOrder returns the indexes of commands that came at a moment. They may come from several goroutines, whose order
// differs from run to run, so they are executed in an order of their own. Epochs for new lives of streams are random, and
// do not count: they are given to the commands anew, as if the goroutines had drawn them in this order.
func executionOrder(commands [][]string) []int {
	keys, order, lives := make([]string, len(commands)), make([]int, len(commands)), []string{}
	for i, args := range commands {
		order[i] = i
		known := slices.Clone(args)
		if k := lifeOf(args); k > 0 {
			lives = append(lives, args[k][:epochSize])
			known[k] = args[k][epochSize:]
		}
		keys[i] = strings.Join(known, "\x00")
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	slices.Sort(lives)
	for _, i := range order {
		if k := lifeOf(commands[i]); k > 0 {
			commands[i][k] = lives[0] + commands[i][k][epochSize:]
			lives = lives[1:]
		}
	}
	return order
}

const epochSize = 8

// lifeOf returns the index of the argument that begins with an epoch for a new life of a stream, or 0: ARGV[6] of scripts
// that publish, and ARGV[1] of scripts that read.
func lifeOf(args []string) int {
	if len(args) < 4 || !strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		return 0
	}
	nkeys, _ := strconv.Atoi(args[2])
	at := 3 + nkeys
	if len(args) > at+5 {
		at += 5
	}
	if nkeys < 2 || at >= len(args) || len(args[at]) < epochSize {
		return 0
	}
	if rest := args[at][epochSize:]; rest != "" && !strings.Contains(rest, ":") {
		return 0
	}
	for i := range epochSize {
		if letter := args[at][i] | 0x20; letter < 'a' || letter > 'z' {
			return 0
		}
	}
	return at
}
