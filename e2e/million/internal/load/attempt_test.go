//go:build linux

package load

import (
	"testing"
	"time"
)

// TestAttempts: attempts are given up in their order, and only those that are still under way.
func TestAttempts(t *testing.T) {
	l := &loop{nodes: make([]node, 2), conns: make([]conn, 3)}
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

// TestOther: the node with the least connections, but neither the one before nor one that is avoided, as long as there is another.
func TestOther(t *testing.T) {
	l := &loop{nodes: []node{{held: 5}, {held: 3}, {held: 4, avoided: true}, {held: 9}}}
	for _, tt := range []struct{ from, want uint16 }{{0, 1}, {1, 0}, {2, 1}, {3, 1}} {
		if got := l.other(tt.from); got != tt.want {
			t.Errorf("from %d to %d, not %d", tt.from, got, tt.want)
		}
	}
	l.nodes = l.nodes[:1]
	if l.other(0) != 0 {
		t.Error("there is no other node")
	}
}
