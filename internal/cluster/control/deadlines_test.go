package control

import (
	"fmt"
	"testing"
	"time"
)

// Each addressee finds its own time, and others none. Milliseconds are cut off, so nobody is told a later time.
func TestDeadlines(t *testing.T) {
	var c Command
	for i := range 52 {
		c.AddDeadline(fmt.Sprint("node", i), int64(i)*int64(time.Hour)+1)
	}
	if size := len(c.Deadlines); size > 52*9 {
		t.Errorf("%d bytes", size)
	}
	for i := range 52 {
		uid, until := fmt.Sprint("node", i), int64(i)*int64(time.Hour)
		if c.Late(uid, until) || !c.Late(uid, until+1) {
			t.Errorf("node %d is late: at its time %v, behind it %v", i, c.Late(uid, until), c.Late(uid, until+1))
		}
	}
	if c.Late("another", 1<<62) {
		t.Error("a node without a time is late")
	}
	c = Command{To: []*Addressee{{UID: "a", Until: 5}}}
	if c.Late("a", 5) || !c.Late("a", 6) || c.Late("b", 6) {
		t.Error("the times of nodes of earlier versions")
	}
}

// What follows, whatever it is, makes no time later.
func FuzzDeadlines(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\xff"), int64(1))
	f.Add([]byte("\x00\x01\x02\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, now int64) {
		var c Command
		c.AddDeadline("a", int64(time.Second))
		c.Deadlines = append(c.Deadlines, data...)
		if late := c.Late("a", now); now > int64(time.Second) && !late {
			t.Error("not late")
		}
		c.Late("b", now)
	})
}
