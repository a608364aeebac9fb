//go:build linux

package load

import (
	"testing"
	"time"

	"github.com/gyrohq/gyro/e2e/million/internal/plan"
)

// TestAttempts: attempts are given up in their order, and only those that are still under way.
func TestAttempts(t *testing.T) {
	l := &loop{nodes: make([]node, 2), plan: &plan.Plan{Conns: 3}, conns: make([]conn, 3)}
	l.report.Cuts, l.report.Refusals = map[string]uint64{}, map[string]uint64{}
	begin := time.Now()
	if l.attempts.next(begin) != time.Hour {
		t.Error("there is no attempt")
	}
	for i := range l.conns {
		c := &l.conns[i]
		c.loop, c.fd, c.state = l, -1, joining
		l.report.Opening++
		l.attempts.push(c, begin.Add(time.Duration(i)*time.Second))
	}
	l.conns[0].state = live
	if wait := l.attempts.next(begin); wait != mostAttempt {
		t.Errorf("the first attempt ends in %v", wait)
	}
	l.giveUp(begin.Add(mostAttempt + time.Second))
	if l.conns[0].state != live || l.conns[1].state != closed || l.conns[2].state != joining || len(l.waiting) != 1 {
		t.Errorf("%v %v %v, %d wait", l.conns[0].state, l.conns[1].state, l.conns[2].state, len(l.waiting))
	}
	l.conns[2].attempt++
	l.giveUp(begin.Add(time.Hour))
	if l.conns[2].state != joining {
		t.Error("an attempt was given up that had ended")
	}
	for range 100 {
		l.attempts.push(&l.conns[2], begin)
		l.giveUp(begin.Add(2 * time.Hour))
		l.conns[2].state = joining
	}
	if len(l.attempts.list) > 10 {
		t.Errorf("%d attempts are kept", len(l.attempts.list))
	}
}

// TestOther: nodes are chosen by their room, but neither the one before nor an avoided one, if there is another.
func TestOther(t *testing.T) {
	l := &loop{plan: &plan.Plan{Conns: 4000}, nodes: []node{{seen: 1300}, {seen: 1340}, {seen: 0, avoided: true}, {seen: 100}}}
	counts := make([]int, len(l.nodes))
	for range 10_000 {
		counts[l.other(0)]++
	}
	// The room is 1,340 at a level of 4,000/3 and 7 more: 0 and 1,240.
	if counts[0] != 0 || counts[1] != 0 || counts[2] != 0 {
		t.Errorf("%v", counts)
	}
	l.nodes[1].seen, counts = 1036, make([]int, len(l.nodes)) // room for 311, a quarter of the other's
	for range 10_000 {
		counts[l.other(0)]++
	}
	if n := counts[1]; n < 400 || n > 800 {
		t.Errorf("%d of 10,000 go to the node with a quarter of the room", n)
	}
	l.nodes[1].seen, l.nodes[3].sent = 1347, 1247
	if got := l.other(0); got != 1 && got != 3 {
		t.Errorf("to %d, which is the one before, or avoided", got)
	}
	for i := range l.nodes {
		l.nodes[i].avoided = i != 1
	}
	if l.other(1) != 1 || l.other(2) != 1 {
		t.Error("there is one node to go to")
	}
}

// TestTogether: so many in a row go to one node, unless they come from it, or it is avoided by now.
func TestTogether(t *testing.T) {
	l := &loop{plan: &plan.Plan{Conns: 4000}, nodes: make([]node, 4)}
	for range 100 {
		l.going = 0
		first := l.next(0)
		for n := 2; n <= together; n++ {
			if got := l.next(0); got != first || got == 0 {
				t.Fatalf("the first went to %d, number %d to %d", first, n, got)
			}
		}
		if l.going != 0 {
			t.Fatalf("%d more go to node %d", l.going, first)
		}
		target := l.next(0)
		if got := l.next(target); got == target {
			t.Fatal("it goes to the node that it comes from")
		}
		l.nodes[l.target].avoided = true
		if got := l.next(0); l.nodes[got].avoided {
			t.Fatal("it goes to a node that is avoided")
		}
		l.nodes = make([]node, 4)
	}
}
