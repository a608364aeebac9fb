package pubsub

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gyrohq/gyro/broker/redis/internal/resp"
)

// model drives a table as callers, a connection and a server do, in random order.
type model struct {
	t          *testing.T
	rand       *rand.Rand
	table      *table
	connection *connection
	inbox      [][]string // commands that the server has not answered
	server     map[string]bool
	calls      []*call
	wanted     map[string]*call // by the last call about a channel
	channels   []string
}

func (m *model) pick() (some []string) {
	for range 1 + m.rand.IntN(4) {
		some = append(some, m.channels[m.rand.IntN(len(m.channels))])
	}
	return some
}

func (m *model) submit(k kind) {
	channels := m.pick()
	c, err := m.table.submit(k, channels)
	for _, ch := range channels {
		switch {
		case c != nil:
			m.wanted[ch] = c
		case k == unsubscribe:
			delete(m.wanted, ch)
		case err == nil:
			m.t.Fatal("a Subscribe without connection succeeded")
		}
	}
	if c != nil {
		m.calls = append(m.calls, c)
	}
}

// send moves commands to the server.
func (m *model) send() {
	if m.connection == nil {
		return
	}
	in := bufio.NewReader(bytes.NewReader(m.table.commands(m.connection, nil)))
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		if len(args) > maxPerCommand+1 {
			m.t.Fatalf("command of %d channels", len(args)-1)
		}
		m.inbox = append(m.inbox, args)
	}
}

// answer has the server answer a command, or refuse it.
func (m *model) answer() {
	if m.connection == nil || len(m.inbox) == 0 {
		return
	}
	args := m.inbox[0]
	m.inbox = m.inbox[1:]
	if args[0] == "PING" {
		m.check(m.table.pong(m.connection))
		return
	}
	if c := m.table.pending[0].call; c.kind == subscribe && !c.boot && m.rand.IntN(4) == 0 {
		m.check(m.table.reject(m.connection, false, []byte("ERR no")))
		return
	}
	k := subscribe
	if args[0] == "UNSUBSCRIBE" {
		k = unsubscribe
	}
	for _, ch := range args[1:] {
		m.server[ch] = k == subscribe
		m.check(m.table.confirm(m.connection, k, []byte(ch)))
	}
}

func (m *model) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) connect() {
	if m.connection == nil {
		m.connection = &connection{wake: make(chan struct{}, 1)}
		m.server, m.inbox = make(map[string]bool), nil
		m.table.open(m.connection, canaryChannel)
	}
}

func (m *model) cut() {
	if m.connection != nil {
		m.table.close(m.connection, errors.New("cut"))
		m.connection = nil
	}
}

func (m *model) step() {
	switch m.rand.IntN(40) {
	case 0:
		m.cut()
	case 1, 2, 3, 4:
		m.connect()
	case 5:
		if m.connection != nil {
			m.table.requestPing(m.connection)
		}
	case 6, 7:
		if len(m.calls) > 0 {
			m.table.abandon(m.calls[m.rand.IntN(len(m.calls))], errors.New("abandoned"))
		}
	case 8, 9, 10, 11, 12, 13, 14, 15:
		m.submit(unsubscribe)
	case 16, 17, 18, 19, 20, 21, 22, 23, 24, 25:
		m.submit(subscribe)
	case 26, 27, 28, 29:
		m.send()
	default:
		m.answer()
	}
}

// checkAll lets everything be answered and compares what is subscribed.
func (m *model) checkAll() {
	m.connect()
	for range 1000 {
		if m.send(); len(m.inbox) == 0 {
			break
		}
		m.answer()
	}
	want := make(map[string]bool)
	for ch, c := range m.wanted {
		select {
		case <-c.done:
		default:
			m.t.Fatalf("a call about %s is not answered", ch)
		}
		if c.kind == subscribe && c.err == nil {
			want[ch] = true
		}
	}
	got := make(map[string]bool)
	for ch, on := range m.server {
		if on && ch != canaryChannel {
			got[ch] = true
		}
	}
	known := make(map[string]bool)
	for ch, e := range m.table.entries {
		if known[ch] = true; !e.on {
			m.t.Fatalf("%s is neither subscribed nor about to be", ch)
		}
	}
	if !maps.Equal(want, got) || !maps.Equal(got, known) {
		m.t.Fatalf("wanted %v, at the server %v, in the table %v", keys(want), keys(got), keys(known))
	}
	if len(m.table.pending) > 0 || len(m.table.queue) > 0 {
		m.t.Fatal("calls remain")
	}
}

func keys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// The last call about a channel counts, whatever happens meanwhile.
func TestTableModel(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), table: newTable("shard", false), wanted: make(map[string]*call)}
			for i := range 2 + m.rand.IntN(6) {
				m.channels = append(m.channels, fmt.Sprint("ch", i))
			}
			for range 4 {
				for range 200 {
					m.step()
				}
				m.checkAll()
			}
		})
	}
}

// FuzzConnection lets a server say anything: the connection fails or goes on, and never panics.
func FuzzConnection(f *testing.F) {
	for _, s := range []string{
		">3\r\n+subscribe\r\n+centrifugo.shard.0\r\n:1\r\n>3\r\n+subscribe\r\n+a\r\n:2\r\n",
		">3\r\n+message\r\n+a\r\n+x\r\n", "-ERR no\r\n", "+PONG\r\n", "*2\r\n+pong\r\n+\r\n", ">3\r\n+sunsubscribe\r\n_\r\n:1\r\n", "%1\r\n+a\r\n+b\r\n",
	} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, sharded bool) {
		conn := New(Config{CanaryChannel: canaryChannel, Sharded: sharded})
		cn := conn.newConnection(nil)
		conn.heartbeat.open(cn)
		conn.table.open(cn, canaryChannel)
		if _, err := conn.table.submit(subscribe, []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		conn.table.requestPing(cn)
		conn.table.commands(cn, nil)
		cn.reader = resp.NewReader(bytes.NewReader(data), 4096, 1<<16)
		var f resp.Frame
		for err := error(nil); err == nil; {
			if err = cn.reader.Next(&f); err == nil {
				_, err = cn.frame(&f)
			}
		}
		conn.table.close(cn, errors.New("end"))
		if n := conn.table.size(); n > 2 {
			t.Fatalf("%d channels", n)
		}
	})
}
