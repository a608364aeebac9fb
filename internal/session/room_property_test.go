package session_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/connkind"
	"github.com/gyrohq/gyro/internal/effect"
	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/internal/recovery"
	"github.com/gyrohq/gyro/internal/sendqueue"
	"github.com/gyrohq/gyro/internal/session"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// comeback is a client that recovers many channels and reads all the time, from a connection that takes some bytes at a
// time. Its effects are done as by a work queue.
type comeback struct {
	random   *rand.Rand
	now      int64
	cfg      session.Config
	env      *fakeEnv
	conn     *fakeConn
	effects  []effect.Effect
	missed   map[string][]*channel.Publication
	commands []string // that the client has not sent yet
	answered int
}

// TestClientThatReadsRecoversEverything: each reply fits into the queue, and all together do not.
func TestClientThatReadsRecoversEverything(t *testing.T) {
	held := 0
	for seed := range uint64(2000) {
		c := newComeback(seed)
		var most int
		for steps := 0; c.answered < len(c.missed); steps++ {
			if c.conn.closed != nil || steps > 100_000 {
				t.Fatalf("seed %d: %d of %d channels recovered, closed %v", seed, c.answered, len(c.missed), c.conn.closed)
			}
			if err := c.step(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			queue, _ := c.env.s.Load()
			most = max(most, queue)
			if c.env.held {
				held++
			}
		}
		if most > c.cfg.QueueMaxSize {
			t.Fatalf("seed %d: %d bytes in a queue of %d", seed, most, c.cfg.QueueMaxSize)
		}
	}
	if held == 0 {
		t.Error("no read had to wait")
	}
}

func newComeback(seed uint64) *comeback {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &comeback{random: r, now: 1, conn: &fakeConn{}, missed: map[string][]*channel.Publication{}, cfg: newPlayer().cfg}
	c.cfg.QueueMaxSize = 800 + r.IntN(5000)
	quick := []int{0, 50, 100}[r.IntN(3)]
	c.env = &fakeEnv{id: "c", now: &c.now, hub: hub.New(new(sendqueue.Arena)), pool: new(sendqueue.Pool)}
	c.env.do = func(e effect.Effect) bool {
		if len(c.effects) == 0 && r.IntN(100) < quick {
			c.execute(e)
			return true
		}
		if e.Traits().Has(effect.Continues) {
			c.effects = append([]effect.Effect{e}, c.effects...)
		} else {
			c.effects = append(c.effects, e)
		}
		return false
	}
	c.env.s.Init(c.env, &c.cfg, c.conn, connkind.New(&transport.Info{Name: "test", Framer: framers[protocol.JSON]}))
	c.commands = append(c.commands, `{"id":1,"connect":{}}`)
	for i := range 1 + r.IntN(8) {
		ch := fmt.Sprintf("ch%d", i)
		left := r.IntN(recovery.Budget(c.cfg.QueueMaxSize, 1))
		for offset := uint64(1); ; offset++ {
			p := &channel.Publication{Offset: offset, Data: []byte(`"` + string(bytes.Repeat([]byte("x"), r.IntN(500))) + `"`)}
			if left -= recovery.Size(p); left < 0 {
				break
			}
			c.missed[ch] = append(c.missed[ch], p)
		}
		if c.missed[ch] != nil {
			c.commands = append(c.commands, fmt.Sprintf(`{"id":%d,"subscribe":{"channel":%q,"recover":true,"epoch":"A"}}`, i+2, ch))
		}
	}
	return c
}

func (c *comeback) step() error {
	r := c.random
	switch n := r.IntN(4); {
	case n == 0 && len(c.commands) > 0: // a frame with some commands
		some := 1 + r.IntN(len(c.commands))
		var frame []byte
		for i, text := range c.commands[:some] {
			if i > 0 {
				frame = append(frame, '\n')
			}
			frame = append(frame, text...)
		}
		c.commands = c.commands[some:]
		c.env.s.Receive(frame)
	case n == 1 && len(c.effects) > 0 && !c.env.held:
		e := c.effects[0]
		c.effects = c.effects[1:]
		c.execute(e)
		if e.Traits().Has(effect.Completes) {
			c.env.s.Complete(e)
		}
	case n == 2:
		c.env.resume()
		c.env.flush()
	case n == 3:
		c.conn.room = r.IntN(1000)
		c.env.s.Flush()
		return c.read()
	}
	return nil
}

func (c *comeback) execute(e effect.Effect) {
	switch e := e.(type) {
	case *effect.Connecting:
		e.Identity.Known, e.Identity.User = true, "u"
	case *effect.Subscribing:
		e.Options.Recoverable = true
	case *effect.Attach:
		it := e.Items[0]
		it.Publications = c.missed[it.Channel]
		it.Top = channel.StreamPosition{Offset: uint64(len(it.Publications)), Epoch: "A"}
	}
}

// read takes the replies that arrived.
func (c *comeback) read() error {
	for {
		n := wholeMessage(protocol.JSON, c.conn.got)
		if n == 0 {
			return nil
		}
		var reply protocol.Reply
		if _, err := codec.ForClient(protocol.JSON).DecodeReply(c.conn.got[:n], &reply); err != nil {
			return err
		}
		c.conn.got = c.conn.got[n:]
		if reply.ID < 2 {
			continue
		}
		ch := fmt.Sprintf("ch%d", reply.ID-2)
		if s := reply.Subscribe; s == nil || !s.Recovered || len(s.Publications) != len(c.missed[ch]) {
			return fmt.Errorf("%s: %d publications missed, and the reply is %s", ch, len(c.missed[ch]), formatReply(&reply))
		}
		c.answered++
	}
}
