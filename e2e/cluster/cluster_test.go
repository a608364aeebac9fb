//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRedis and TestNATS: what nodes tell each other grows with the nodes, answers are of all nodes, and a node that is lost makes no
// command fail.
func TestRedis(t *testing.T) { t.Parallel(); few(t, newEngine(t, "redis", 2), 8) }

func TestNATS(t *testing.T) { t.Parallel(); few(t, newEngine(t, "nats", 0), 5) }

func few(t *testing.T, e *engine, n int) {
	f := newFleet(t, e, n)
	f.know(f.all(), n)
	for i := range f.nodes {
		f.client(i, fmt.Sprintf("user-%d", i), "plain:all", fmt.Sprintf("plain:%d", i))
	}
	signs(t, f)
	answers(t, f)
	f.commands()
	killed(t, f)
	resumed(t, f)
}

// signs: each node sends a sign of life every 3 s, and its size does not grow with the nodes.
func signs(t *testing.T, f *fleet) {
	const rounds = 1
	heard, stop := f.listen()
	defer stop()
	f.until("signs of life", func() bool { return heard.rounds(len(f.nodes)) >= rounds })
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.senders) != len(f.nodes) {
		t.Errorf("%d nodes gave signs of life, want %d", len(heard.senders), len(f.nodes))
	}
	for uid, signs := range heard.senders {
		if signs > rounds+1 {
			t.Errorf("node %s gave %d signs of life while another one gave %d", uid, signs, rounds)
		}
	}
	if n, size := heard.messages["sign of life"], heard.bytes["sign of life"]; size > 400*n {
		t.Errorf("%d signs of life have %d bytes", n, size)
	}
	for kind, n := range heard.messages {
		if kind != "sign of life" {
			t.Errorf("the nodes told each other: %d times %q", n, kind)
		}
	}
}

// rounds returns the signs of life of the node that gave the fewest.
func (t *told) rounds(nodes int) (least int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.senders) < nodes {
		return 0
	}
	for _, n := range t.senders {
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// answers checks that answers of all nodes are whole, at each node.
func answers(t *testing.T, f *fleet) {
	ctx, n := t.Context(), len(f.nodes)
	for i := range f.nodes {
		if names, err := f.listed(i); err != nil || len(names) != n {
			t.Errorf("node %d lists %q, %v", i, names, err)
		}
		channels, err := f.channels(ctx, i)
		if err != nil || channels.Incomplete != "" || len(channels.Channels) != n+1 || channels.Channels["plain:all"].NumClients != n {
			t.Errorf("channels at node %d: %v, %v", i, channels, err)
		}
		var connections struct{ Connections map[string]any }
		if err := f.call(ctx, i, "connections", map[string]any{"channel": "plain:all"}, &connections); err != nil || len(connections.Connections) != n {
			t.Errorf("connections at node %d: %v, %v", i, connections, err)
		}
		if nodes, conns, err := f.snapshot(ctx, i); err != nil || nodes != n || conns != n {
			t.Errorf("snapshot at node %d: %d connections of %d nodes, %v", i, conns, nodes, err)
		}
		if all, silent, err := f.vitals(ctx, i); err != nil || len(all) != n || len(silent) > 0 {
			t.Errorf("the admin interface at node %d tells of %q, and not of %q, %v", i, all, silent, err)
		}
	}
}

func (f *fleet) commands() {
	f.tb.Helper()
	for i := range f.nodes {
		params := map[string]any{"user": fmt.Sprintf("user-%d", i), "channel": "plain:told"}
		for _, method := range []string{"subscribe", "unsubscribe"} {
			if err := f.call(context.Background(), (i+1)%len(f.nodes), method, params, nil); err != nil {
				f.tb.Errorf("%s of a user of node %d: %v", method, i, err)
			}
			f.until(method, func() bool { return f.has(fmt.Sprintf("user-%d", i), "plain:told") == (method == "subscribe") })
		}
	}
}

func (f *fleet) has(user, channel string) bool {
	f.tb.Helper()
	var res struct {
		Connections map[string]struct {
			State struct{ Channels map[string]json.RawMessage }
		}
	}
	if err := f.call(context.Background(), 0, "connections", map[string]any{"user": user}, &res); err != nil {
		f.tb.Fatal(err)
	}
	for _, c := range res.Connections {
		if c.State.Channels[channel] != nil {
			return true
		}
	}
	return false
}

type channels struct {
	Channels map[string]struct {
		NumClients int `json:"num_clients"`
	}
	Incomplete string
}

func (f *fleet) channels(ctx context.Context, i int) (c channels, err error) {
	err = f.call(ctx, i, "channels", map[string]any{"pattern": "plain:*"}, &c)
	return c, err
}

// killed: beside a killed node, commands succeed, and what needs an answer of all nodes names it. How soon that is known
// is tested in virtual time (internal/cluster), and measured by TestTable.
func killed(t *testing.T, f *fleet) {
	victim := len(f.nodes) - 1
	name := fmt.Sprintf("node-%d", victim)
	f.nodes[victim].Kill()
	if err := f.call(t.Context(), 0, "disconnect", map[string]any{"user": "nobody"}, nil); err != nil {
		t.Errorf("a command: %v", err)
	}
	channels, err := f.channels(t.Context(), 1)
	if n := len(f.nodes); err != nil || !strings.Contains(channels.Incomplete, name) ||
		len(channels.Channels) != n || channels.Channels["plain:all"].NumClients != n-1 {
		t.Errorf("channels without %s: %+v, %v", name, channels, err)
	}
	_, silent, err := f.vitals(t.Context(), 2)
	if err != nil || !slices.Equal(silent, []string{name}) {
		t.Errorf("the admin interface tells not of %q, %v", silent, err)
	}
	f.launch(victim)
	f.ready(victim)
}

// resumed: a suspended node hears of a command when it goes on.
func resumed(t *testing.T, f *fleet) {
	const victim = 1
	f.client(victim, "sleeper")
	f.nodes[victim].Pause()
	params := map[string]any{"user": "sleeper", "channel": "plain:dream"}
	err := f.call(t.Context(), 0, "subscribe", params, nil)
	f.nodes[victim].Resume()
	if err != nil {
		t.Fatalf("a command beside a suspended node: %v", err)
	}
	f.until("the command at the node that was suspended", func() bool { return f.has("sleeper", "plain:dream") })
}
