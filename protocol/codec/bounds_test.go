package codec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/internal/tagsfilter"
	"github.com/gyrohq/gyro/protocol"
)

// Tags filters are bounded while they are decoded: of one that is too large no more than
// the bound is made, and the rest of the command is as it was sent.
func TestFilterBounds(t *testing.T) {
	leaf := &protocol.FilterNode{Key: "k", Cmp: "ex"}
	wide := func(n int) *protocol.FilterNode {
		f := &protocol.FilterNode{Op: "or"}
		for range n {
			f.Nodes = append(f.Nodes, leaf)
		}
		return f
	}
	deep := func(n int) *protocol.FilterNode {
		f := leaf
		for range n {
			f = &protocol.FilterNode{Op: "not", Nodes: []*protocol.FilterNode{f}}
		}
		return f
	}
	values := func(n int) *protocol.FilterNode {
		return &protocol.FilterNode{Key: "k", Cmp: "in", Vals: strings.Split(strings.Repeat("v,", n)+"v", ",")}
	}
	for name, tt := range map[string]struct {
		filter *protocol.FilterNode
		ok     bool
	}{
		"most nodes": {wide(tagsfilter.MaxNodes - 1), true}, "more nodes": {wide(tagsfilter.MaxNodes), false}, "far more nodes": {wide(9000), false},
		"deepest": {deep(tagsfilter.MaxDepth - 1), true}, "deeper": {deep(tagsfilter.MaxDepth), false}, "far deeper": {deep(250), false},
		"most values": {values(tagsfilter.MaxVals - 1), true}, "more values": {values(tagsfilter.MaxVals), false}, "far more values": {values(20000), false},
	} {
		for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
			t.Run(fmt.Sprintf("%s/%v", name, e), func(t *testing.T) {
				sent := &protocol.Command{ID: 7, Subscribe: &protocol.SubscribeRequest{Channel: "a", Tf: tt.filter, Delta: "fossil"}}
				got := decodeBounded(t, e, sent)
				if got.ID != 7 || got.Subscribe == nil || got.Subscribe.Channel != "a" || got.Subscribe.Delta != "fossil" {
					t.Errorf("got %+v", got)
				}
				if nodes, vals := size(got.Subscribe.Tf); nodes > tagsfilter.MaxNodes+1 || vals > tagsfilter.MaxVals {
					t.Errorf("%d nodes and %d values were made", nodes, vals)
				}
				if _, err := tagsfilter.Compile(got.Subscribe.Tf); (err == nil) != tt.ok {
					t.Errorf("compiled with %v", err)
				}
			})
		}
	}
	// The bound is for a command: a client may name many channels when it connects.
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		subs := make(map[string]*protocol.SubscribeRequest)
		for i := range 50 {
			subs[fmt.Sprint(i)] = &protocol.SubscribeRequest{Tf: wide(100)}
		}
		all := 0
		for _, s := range decodeBounded(t, e, &protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{Subs: subs}}).Connect.Subs {
			n, _ := size(s.Tf)
			all += n
		}
		if all > tagsfilter.MaxNodes+50 {
			t.Errorf("%v: %d nodes were made", e, all)
		}
	}
	// What a later member replaces has been made too, and does not let another pass.
	var cmd protocol.Command
	nodes := `[` + strings.Repeat(`{"key":"k","cmp":"ex"},`, 255) + `{"key":"k","cmp":"ex"}]`
	frame := `{"id":1,"subscribe":{"tf":{"op":"or","nodes":` + nodes + `,"nodes":` + nodes + `}}}`
	if _, err := For(protocol.JSON).DecodeCommand([]byte(frame), &cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := tagsfilter.Compile(cmd.Subscribe.Tf); err == nil {
		t.Error("a filter was cut off and accepted")
	}
}

func decodeBounded(t *testing.T, e protocol.Encoding, sent *protocol.Command) *protocol.Command {
	t.Helper()
	frame, err := ForClient(e).AppendCommand(nil, sent)
	if err != nil {
		t.Fatal(err)
	}
	got := new(protocol.Command)
	if rest, err := For(e).DecodeCommand(frame, got); err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d bytes are left", err, len(rest))
	}
	return got
}

func size(f *protocol.FilterNode) (nodes, vals int) {
	if f == nil {
		return 0, 0
	}
	nodes, vals = 1, len(f.Vals)
	for _, child := range f.Nodes {
		n, v := size(child)
		nodes, vals = nodes+n, vals+v
	}
	return nodes, vals
}
