package clocks

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// member is a node of the test, whose clock is wrong by a constant.
type member struct {
	*Clocks
	uid   string
	wrong time.Duration
}

// exchange has nodes exchange signs of life for a time, every 3 s. Each takes at least half a millisecond, and
// mostly more, up to 30 ms.
func exchange(r *rand.Rand, nodes []*member, start time.Time, lasts time.Duration) {
	for at := time.Duration(0); at < lasts; at += 3 * time.Second {
		for _, from := range nodes {
			clock, reports := from.Send(start.Add(at + from.wrong))
			for _, to := range nodes {
				if to != from {
					took := 500*time.Microsecond + time.Duration(r.ExpFloat64()*float64(3*time.Millisecond))
					to.Receive(from.uid, clock, reports, start.Add(at+to.wrong+min(took, 30*time.Millisecond)))
				}
			}
		}
	}
}

// The nodes agree on the time, whatever their clocks are, and the middle one is right.
func TestAgree(t *testing.T) {
	for _, wrong := range [][]time.Duration{
		{0},
		{0, 0},
		{0, time.Second},
		{-time.Hour, 0, 5 * time.Millisecond},
		{0, 0, 0, 7 * time.Second, -300 * time.Millisecond},
	} {
		r := rand.New(rand.NewPCG(1, uint64(len(wrong))))
		var nodes []*member
		for i, w := range wrong {
			uid := fmt.Sprint("node-", i)
			nodes = append(nodes, &member{New(uid, nil), uid, w})
		}
		exchange(r, nodes, time.Unix(1e9, 0), 5*time.Minute)
		const tolerance = 500 * time.Microsecond
		for _, n := range nodes {
			// what it takes for the right time of the cluster
			if off := (n.wrong - n.Ahead()) - (nodes[0].wrong - nodes[0].Ahead()); off > tolerance || off < -tolerance {
				t.Errorf("%v: node %s is off by %v", wrong, n.uid, off)
			}
		}
		if n := nodes[len(nodes)/2]; len(nodes)%2 == 1 && n.wrong == 0 && n.Correction() != 0 {
			t.Errorf("%v: a node whose clock is the middle one is corrected by %v", wrong, n.Correction())
		}
	}
}

// A clock that somebody sets is measured anew; a node that is gone does not count any more.
func TestChange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := []*member{{New("a", nil), "a", 0}, {New("b", nil), "b", 2 * time.Second}}
	start := time.Unix(1e9, 0)
	exchange(r, nodes, start, 5*time.Minute)
	if ahead := nodes[1].Ahead().Round(time.Millisecond); ahead != time.Second {
		t.Fatalf("ahead by %v", ahead)
	}
	nodes[1].wrong = 4 * time.Second
	exchange(r, nodes, start.Add(5*time.Minute), 3*time.Minute)
	if ahead := nodes[1].Ahead().Round(time.Millisecond); ahead != 2*time.Second {
		t.Errorf("ahead by %v of a node whose clock was set", ahead)
	}
	nodes[0].Send(start.Add(20 * time.Minute))
	if len(nodes[0].nodes) != 0 || nodes[0].Ahead() != 0 {
		t.Errorf("%d nodes are left", len(nodes[0].nodes))
	}
}

// Reports are few, and go round: each node is told of in one of 20 signs of life.
func TestReports(t *testing.T) {
	now := time.Unix(1e9, 0)
	for nodes, want := range map[int]int{1: 1, 4: 4, 52: 4, 81: 5, 640: MaxReports, 1000: MaxReports} {
		c, seen := New("self", nil), make(map[uint64]bool)
		for i := range nodes {
			c.Receive(fmt.Sprint(i), now.UnixNano(), nil, now)
		}
		for range (nodes + want - 1) / want {
			_, reports := c.Send(now)
			if len(reports) != want {
				t.Fatalf("%d reports for %d nodes, want %d", len(reports), nodes, want)
			}
			for _, r := range reports {
				seen[r.Node] = true
			}
		}
		if len(seen) != nodes {
			t.Errorf("%d of %d nodes were told", len(seen), nodes)
		}
	}
	c := New("self", nil)
	for i := range maxNodes - 10 {
		c.nodes[uint64(i)] = &peer{seen: now}
	}
	for i := range 20 {
		c.Receive(fmt.Sprint("x", i), now.UnixNano(), nil, now)
	}
	if len(c.nodes) != maxNodes {
		t.Errorf("%d nodes are known", len(c.nodes))
	}
}

// Without others, and without clocks, nothing is corrected.
func TestNone(t *testing.T) {
	for _, c := range []*Clocks{nil, New("x", nil)} {
		if c.Ahead() != 0 || c.Correction() != 0 || c.Stamp() != 0 {
			t.Errorf("%v", c.Ahead())
		}
		before := time.Now().UnixNano()
		if off := c.Now() - before; off < 0 || off > int64(time.Minute) {
			t.Errorf("now is off by %d", off)
		}
	}
	c := New("x", nil)
	c.ahead.Store(int64(-time.Hour))
	if at := c.Stamp(); at < time.Now().Add(59*time.Minute).UnixMilli() {
		t.Errorf("stamped with %d", at)
	}
	c.Receive("old", 0, nil, time.Now())
	if len(c.nodes) != 0 {
		t.Error("a node without a clock is known")
	}
}
