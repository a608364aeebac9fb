package plan

import "testing"

// TestPlan: each connection has one place, channels have the subscribers that they are said to have, of both encodings and on all
// nodes, and nodes have equal parts.
func TestPlan(t *testing.T) {
	for _, size := range []struct{ conns, nodes, loads int }{{100, 1, 1}, {1001, 3, 2}, {20_000, 4, 2}, {100_000, 6, 6}, {100_000, 6, 7}, {999_960, 52, 52}} {
		p, err := New(size.conns, size.nodes, size.loads)
		if err != nil {
			t.Fatal(err)
		}
		subscribers, nodes := map[Channel]int{}, make([]int, size.nodes)
		reach := map[int]bool{}
		binary, next := [Classes]int{}, 0
		for load := range size.loads {
			from, to := p.Range(load)
			if from != next {
				t.Fatalf("%v: load process %d begins at %d, not %d", size, load, from, next)
			}
			next = to
			homes := make([]int, size.nodes)
			for conn := from; conn < to; conn++ {
				ch, node := p.Channel(conn), p.Home(conn)
				subscribers[ch]++
				nodes[node]++
				if p.Binary(conn) {
					binary[ch.Class()]++
				}
				if ch == At(Crowd, 0) {
					reach[node] = true
				}
				homes[node]++
			}
			for node, n := range homes {
				if part := (to - from) / size.nodes; n < part || n > part+1 {
					t.Errorf("%v: load process %d has %d connections to node %d", size, load, n, node)
				}
			}
		}
		if next != size.conns {
			t.Errorf("%v: %d connections", size, next)
		}
		count := 0
		for class := range Classes {
			count += p.Channels(class)
			if part := float64(binary[class]) / float64(p.Members(class)); part < 0.4 || part > 0.6 {
				t.Errorf("%v: %.2f of the connections in %v speak Protobuf", size, part, class)
			}
		}
		if len(subscribers) != count {
			t.Errorf("%v: %d channels have subscribers, of %d", size, len(subscribers), count)
		}
		for ch, n := range subscribers {
			if back, ok := Parse(ch.String()); n != p.Subscribers(ch) || !ok || back != ch {
				t.Fatalf("%v: %v has %d subscribers, not %d, or is read as %v", size, ch, n, p.Subscribers(ch), back)
			}
		}
		for node, n := range nodes {
			if part := size.conns / size.nodes; n < part-size.loads || n > part+size.loads {
				t.Errorf("%v: node %d has %d connections", size, node, n)
			}
		}
		if len(reach) != size.nodes {
			t.Errorf("%v: a crowd is on %d nodes", size, len(reach))
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
