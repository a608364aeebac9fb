package stand

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gyrohq/gyro/internal/wsclient"
)

func TestOrders(t *testing.T) {
	failed := errors.New("failed")
	const answered, happened, lost, over = "answered", "happened", "client lost", "over"
	for name, test := range map[string]struct {
		err    error
		events []string
		want   Orders // with the number of Wrong in it
		wrong  int
		owed   int
	}{
		"carried out":            {nil, []string{answered, happened, over}, Orders{Acknowledged: 1, Done: 1}, 0, 0},
		"carried out before":     {nil, []string{happened, answered, over}, Orders{Acknowledged: 1, Done: 1}, 0, 0},
		"not carried out":        {nil, []string{answered, over}, Orders{Acknowledged: 1}, 0, 1},
		"client lost":            {nil, []string{answered, lost, over}, Orders{Acknowledged: 1, Void: 1}, 0, 0},
		"failed":                 {failed, []string{answered, over}, Orders{Failed: 1}, 0, 0},
		"failed, carried out":    {failed, []string{answered, happened, over}, Orders{Failed: 1, Done: 1}, 0, 0},
		"failed, too late":       {failed, []string{answered, over, happened}, Orders{Failed: 1}, 1, 0},
		"failed, lost after all": {failed, []string{answered, over, lost}, Orders{Failed: 1, Void: 1}, 0, 0},
	} {
		conn, other := net.Pipe()
		defer other.Close()
		b := &orders{}
		o, _ := b.add()
		o.visitor = &visitor{conn: wsclient.Over(conn, false, 0)}
		for _, event := range test.events {
			switch event {
			case answered:
				b.answered(o, test.err, "now")
			case happened, lost:
				b.happened(o, event == lost)
			case over:
				b.end()
			}
		}
		got := b.read()
		if owed := b.owed(func(int) int { return 0 }); len(got.Wrong) != test.wrong || len(owed) != test.owed {
			t.Errorf("%s: wrong %q, owed %q", name, got.Wrong, owed)
		}
		if owed := b.owed(func(int) int { return 1 }); len(owed) != 0 {
			t.Errorf("%s: a node that died owes %q", name, owed)
		}
		got.Wrong = nil
		if got.Acknowledged != test.want.Acknowledged || got.Failed != test.want.Failed || got.Done != test.want.Done || got.Void != test.want.Void {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestReception(t *testing.T) {
	clock := func(time.Time) string { return "then" }
	for name, test := range map[string]struct {
		before func(r *reception) // client a is at node 0, client b at node 1
		listed []string
		wrong  int
	}{
		"both":               {func(*reception) {}, []string{"a", "b"}, 0},
		"one missing":        {func(*reception) {}, []string{"a"}, 1},
		"a stranger":         {func(*reception) {}, []string{"a", "b", "c"}, 1},
		"of another room":    {func(r *reception) { r.arrived("c", "other", 0, 0) }, []string{"a", "b", "c"}, 1},
		"left":               {func(r *reception) { r.left("a", "so") }, []string{"b"}, 0},
		"left, listed":       {func(r *reception) { r.left("a", "so") }, []string{"a", "b"}, 1},
		"left, node died":    {func(r *reception) { r.left("a", "so"); r.died(0) }, []string{"a", "b"}, 0},
		"left another node":  {func(r *reception) { r.left("a", "so"); r.died(1) }, []string{"a", "b"}, 1},
		"left the next life": {func(r *reception) { r.died(0); r.arrived("c", "room", 0, r.life(0)); r.left("c", "so") }, []string{"a", "b", "c"}, 1},
		"left, older data":   {func(r *reception) { r.left("a", "so"); r.wentBack() }, []string{"a", "b"}, 0},
		"left behind that":   {func(r *reception) { r.wentBack(); r.left("a", "so") }, []string{"a", "b"}, 1},
		"missing, node died": {func(r *reception) { r.died(0) }, []string{"b"}, 1},
	} {
		r := &reception{}
		r.arrived("a", "room", 0, r.life(0))
		r.arrived("b", "room", 1, r.life(1))
		test.before(r)
		listed := make(map[string]struct{})
		for _, id := range test.listed {
			listed[id] = struct{}{}
		}
		if wrong := r.compare("room", listed, clock); len(wrong) != test.wrong {
			slices.Sort(wrong)
			t.Errorf("%s: %d wrong, want %d: %q", name, len(wrong), test.wrong, wrong)
		}
	}
}
