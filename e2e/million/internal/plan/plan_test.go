package plan

import (
	"math"
	"testing"
)

type planSize struct{ conns, nodes, loads int }

// tally is what a plan does with all connections.
type tally struct {
	subscribers map[Channel]int
	nodes       []int              // connections
	loads       []int              // by node: load processes with connections to it
	reach       []map[Channel]bool // by node: channels of the class Hundred
	crowd       map[int]bool       // nodes with members of a crowd
	binary      [Classes]int
}

// count also checks each load process.
func count(t *testing.T, p *Plan, size planSize) *tally {
	t.Helper()
	c := &tally{
		subscribers: map[Channel]int{}, nodes: make([]int, size.nodes), loads: make([]int, size.nodes),
		reach: make([]map[Channel]bool, size.nodes), crowd: map[int]bool{},
	}
	for node := range c.reach {
		c.reach[node] = map[Channel]bool{}
	}
	next := 0
	for load := range size.loads {
		from, to := p.Range(load)
		if from != next {
			t.Fatalf("%v: load process %d begins at %d, not %d", size, load, from, next)
		}
		next = to
		homes := make([]int, size.nodes)
		for conn := from; conn < to; conn++ {
			c.add(p, conn)
			homes[p.Home(conn)]++
		}
		for node, n := range homes {
			if n > 0 {
				c.loads[node]++
			}
			if part := (to - from) * size.loads / size.nodes / p.Near(); n > part+1 {
				t.Errorf("%v: load process %d has %d connections to node %d", size, load, n, node)
			}
		}
	}
	if next != size.conns {
		t.Errorf("%v: %d connections", size, next)
	}
	return c
}

func (c *tally) add(p *Plan, conn int) {
	ch, node := p.Channel(conn), p.Home(conn)
	c.subscribers[ch]++
	c.nodes[node]++
	if p.Binary(conn) {
		c.binary[ch.Class()]++
	}
	if ch == At(Crowd, 0) {
		c.crowd[node] = true
	}
	if ch.Class() == Hundred {
		c.reach[node][ch] = true
	}
}

// TestPlan: channels have their subscribers, of both encodings and on all nodes, and nodes have equal parts.
func TestPlan(t *testing.T) {
	for _, size := range []planSize{{100, 1, 1}, {1001, 3, 2}, {20_000, 4, 2}, {100_000, 6, 6}, {100_000, 6, 7}, {999_960, 52, 52}} {
		p, err := New(size.conns, size.nodes, size.loads)
		if err != nil {
			t.Fatal(err)
		}
		c, channels := count(t, p, size), 0
		for class := range Classes {
			channels += p.Channels(class)
			if part := float64(c.binary[class]) / float64(p.Members(class)); math.Abs(part-0.5) > 0.1+0.5/math.Sqrt(float64(p.Members(class))) {
				t.Errorf("%v: %.2f of the connections in %v speak Protobuf", size, part, class)
			}
		}
		if len(c.subscribers) != channels {
			t.Errorf("%v: %d channels have subscribers, of %d", size, len(c.subscribers), channels)
		}
		for ch, n := range c.subscribers {
			if back, ok := Parse(ch.String()); n != p.Subscribers(ch) || !ok || back != ch {
				t.Fatalf("%v: %v has %d subscribers, not %d, or is read as %v", size, ch, n, p.Subscribers(ch), back)
			}
		}
		for node, n := range c.nodes {
			if part := size.conns / size.nodes; n < part-size.loads || n > part+size.loads {
				t.Errorf("%v: node %d has %d connections", size, node, n)
			}
			if n := c.loads[node]; n < p.Near() || n > p.Near()+(size.loads+size.nodes-1)/size.nodes {
				t.Errorf("%v: the connections of node %d are in %d load processes", size, node, n)
			}
		}
		if len(c.crowd) != size.nodes {
			t.Errorf("%v: a crowd is on %d nodes", size, len(c.crowd))
		}
		spread := 0
		for _, channels := range c.reach {
			spread += len(channels)
		}
		all := float64(size.nodes)
		if chance := all * (1 - math.Pow(1-1/all, float64(p.Subscribers(At(Hundred, 0))))); math.Abs(float64(spread)/float64(p.Channels(Hundred))-chance) > 0.05*chance {
			t.Errorf("%v: a channel of the class %v is on %.1f nodes, by chance on %.1f", size, Hundred, float64(spread)/float64(p.Channels(Hundred)), chance)
		}
	}
}

// TestParse: names that no plan has.
func TestParse(t *testing.T) {
	for _, name := range []string{"", "own", "own:", "own:-1", "own:x", "other:1", "own:268435456", "#own:1"} {
		if ch, ok := Parse(name); ok {
			t.Errorf("%q is read as %v", name, ch)
		}
	}
	if _, err := New(99, 1, 1); err == nil {
		t.Error("a plan for 99 connections")
	}
}
