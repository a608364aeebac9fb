package observation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// told is the client's token, from what the test calls its token: its name, and when it was issued.
func told(name string, at int64) *channel.Token {
	return &channel.Token{ID: "id of " + name, IssuedAt: at}
}

// Connections tell of the tokens of clients and subscriptions, and refreshes replace them.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.Everything(gyro.SubscribeOptions{Token: told("sub", 7)}, gyro.PublishOptions{})
		h.Connecting = func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			reply, err := nodetest.As(ctx, e)
			reply.ClientSideRefresh = true
			if reply.Credentials.ExpireAt = time.Now().Add(time.Hour); e.Token == "ann" {
				reply.Credentials.Token = told("ann", 5)
			}
			return reply, err
		}
		h.Refresh = func(_ context.Context, _ *gyro.Client, e gyro.RefreshEvent) (gyro.RefreshReply, error) {
			reply := gyro.RefreshReply{ExpireAt: time.Now().Add(time.Hour)}
			if e.Token != "" {
				reply.Token = told(e.Token, 6)
			}
			return reply, nil
		}
		subscribe := h.Subscribe
		h.Subscribe = func(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			reply, err := subscribe(ctx, c, e)
			reply.ClientSideRefresh, reply.Options.ExpireAt = true, time.Now().Add(time.Hour)
			return reply, err
		}
		h.SubRefresh = func(_ context.Context, _ *gyro.Client, e gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
			return gyro.SubRefreshReply{ExpireAt: time.Now().Add(time.Hour), Token: told(e.Token, 8)}, nil
		}
		x := nodetest.NewTrio(t, h)
		ann, bob := wstest.Pipe(t, x.Nodes[0]), wstest.Pipe(t, x.Nodes[0])
		ann.Connect(`"token":"ann"`)
		ann.Subscribe("ch", "")
		bob.Connect(`"token":"bob"`)
		want := func(user string, client, sub *channel.Token) {
			t.Helper()
			got, err := x.Nodes[1].Inspect().Connections(t.Context(), inspect.Filter{User: user})
			nodetest.Must(t, err)
			if len(got.List) != 1 {
				t.Fatalf("%+v", got)
			}
			c := got.List[0]
			if !reflect.DeepEqual(c.Token, client) || !reflect.DeepEqual(c.Channels["ch"].Token, sub) {
				t.Errorf("%s has %+v and %+v, want %+v and %+v", user, c.Token, c.Channels["ch"].Token, client, sub)
			}
		}
		want("ann", told("ann", 5), told("sub", 7))
		want("bob", nil, nil)
		ann.Do(`"refresh":{"token":"new"}`)
		want("ann", told("new", 6), told("sub", 7))
		ann.Do(`"sub_refresh":{"channel":"ch","token":"other"}`)
		want("ann", told("new", 6), told("other", 8))
		nodetest.Must(t, x.Nodes[0].Users().Refresh(t.Context(), gyro.Target{User: "ann"}, &gyro.RefreshOptions{ExpireAt: time.Now().Add(2 * time.Hour), Info: []byte(`{}`)}))
		want("ann", told("new", 6), told("other", 8)) // the server has prolonged it without a token
	})
}

// versions is the condition "app_version is one of these".
func versions(text string) (inspect.Condition, error) {
	if text == "bad" {
		return nil, errors.New("no such language")
	}
	return func(_ context.Context, c *inspect.Connection) (bool, error) {
		if c.AppVersion == "fails" {
			return false, fmt.Errorf("no value for %s", c.User)
		}
		return strings.Contains(text, c.AppVersion), nil
	}, nil
}

// A snapshot has each connection of all nodes once, whatever comes and goes meanwhile, and expressions select
// among them.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Connecting = labelled
		x := nodetest.NewTrioOf(t, gyro.Config{Handlers: h, Expressions: versions})
		const each = 600 // more than a page
		ids := make([]string, 2*each)
		for i := range 2 * each {
			c := wstest.Pipe(t, x.Nodes[i%2])
			ids[i] = c.Connect(fmt.Sprintf(`"token":"u%d","version":%q`, i/4, fmt.Sprint(i))).Client
			if i == 5 {
				c.Subscribe("ch", "")
			}
		}
		leave := func(i int) {
			nodetest.Must(t, x.Nodes[i%2].Users().Disconnect(t.Context(), gyro.Target{User: fmt.Sprintf("u%d", i/4), Client: ids[i]}, nil))
		}
		snapshot := func(f inspect.Filter, during func(inspect.Page)) (seen map[string]int, failed string, err error) {
			seen = make(map[string]int)
			for p, failure := range x.Nodes[2].Inspect().Snapshot(t.Context(), f) {
				if failure != nil {
					return seen, failed, failure
				}
				failed = cmp.Or(failed, p.Failed)
				if p.Name == "" || len(p.Connections) > 600 {
					t.Errorf("a page of %q with %d connections", p.Name, len(p.Connections))
				}
				for _, c := range p.Connections {
					if seen[c.AppVersion]++; c.Node != p.Node {
						t.Errorf("%q is not of %q", c.Node, p.Node)
					}
				}
				during(p)
			}
			return seen, failed, nil
		}
		nothing := func(inspect.Page) {}
		pages := 0
		seen, _, err := snapshot(inspect.Filter{}, func(inspect.Page) { pages++ })
		nodetest.Must(t, err)
		for i := range 2 * each {
			if seen[fmt.Sprint(i)] != 1 {
				t.Fatalf("client %d came %d times", i, seen[fmt.Sprint(i)])
			}
		}
		if len(seen) != 2*each || pages < 5 {
			t.Errorf("%d connections in %d pages", len(seen), pages)
		}
		for _, tt := range []struct {
			f    inspect.Filter
			want int
		}{
			{inspect.Filter{User: "u1"}, 4},
			{inspect.Filter{Channel: "ch"}, 1},
			{inspect.Filter{Labels: &protocol.FilterNode{Key: "plan", Cmp: "eq", Val: "of u2"}}, 4},
			{inspect.Filter{Expression: "16, 17, 18, 19", User: "u4"}, 4}, // 1, 7, … are of other users
			{inspect.Filter{Client: "nobody"}, 0},
		} {
			if seen, failed, err := snapshot(tt.f, nothing); len(seen) != tt.want || failed != "" || err != nil {
				t.Errorf("%+v: %d, %q, %v, want %d", tt.f, len(seen), failed, err, tt.want)
			}
		}
		got, err := x.Nodes[2].Inspect().Connections(t.Context(), inspect.Filter{Expression: "16, 17, 18, 19", User: "u4", Limit: 3})
		if len(got.List) != 3 || !got.More || err != nil {
			t.Errorf("%d connections, more: %v, %v", len(got.List), got.More, err)
		}
		odd := wstest.Pipe(t, x.Nodes[1])
		odd.Connect(`"token":"odd","version":"fails"`)
		if got, err := x.Nodes[2].Inspect().Connections(t.Context(), inspect.Filter{Expression: "17"}); len(got.List) != 3 || got.Failed != "no value for odd" || err != nil {
			t.Errorf("%d connections, %q, %v", len(got.List), got.Failed, err)
		}
		nodetest.Must(t, x.Nodes[1].Users().Disconnect(t.Context(), gyro.Target{User: "odd"}, nil))
		// Half of the connections go after the first page, others come.
		first := true
		seen, _, err = snapshot(inspect.Filter{}, func(inspect.Page) {
			if !first {
				return
			}
			first = false
			for i := range each {
				leave(2*i + i%2) // of both nodes
			}
		})
		nodetest.Must(t, err)
		for i := range each {
			i := 2*i + 1 - i%2
			if seen[fmt.Sprint(i)] != 1 {
				t.Fatalf("client %d, which has stayed, came %d times", i, seen[fmt.Sprint(i)])
			}
		}
		for p, err := range x.Nodes[2].Inspect().Snapshot(t.Context(), inspect.Filter{}) {
			if err != nil || p.Name == "" {
				t.Errorf("a page of %q, %v", p.Name, err)
			}
			break // ends the snapshot at all nodes
		}
		for _, bad := range []inspect.Filter{{Expression: "bad"}, {Labels: &protocol.FilterNode{Cmp: "what"}}} {
			if _, _, err := snapshot(bad, nothing); !errors.Is(err, gyro.ErrorBadRequest) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, err := x.Nodes[2].Inspect().Connections(t.Context(), inspect.Filter{Expression: "bad"}); !errors.Is(err, gyro.ErrorBadRequest) || !errors.Is(err, inspect.ErrExpression) || !strings.Contains(err.Error(), "no such language") {
			t.Errorf("a wrong expression: %v", err)
		}
		x.Engines[0].Cut(true)
		if _, _, err := snapshot(inspect.Filter{}, nothing); !errors.Is(err, gyro.ErrNoAnswer) || !strings.Contains(err.Error(), x.Nodes[0].UID()) {
			t.Errorf("without a node: %v", err)
		}
	})
}

// Users are those of one node, without anonymous ones.
func TestUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		users := func(n *gyro.Node) string {
			all := make(map[string]bool)
			for list, err := range n.Inspect().Users(t.Context()) {
				nodetest.Must(t, err)
				for _, u := range list {
					all[u] = true
				}
			}
			return strings.Join(slices.Sorted(maps.Keys(all)), " ")
		}
		if got := users(x.Nodes[0]); got != "" {
			t.Errorf("an empty node has users %q", got)
		}
		for i, user := range []string{"ann", "", "bob", "ann", "cid"} {
			wstest.Pipe(t, x.Nodes[i/4]).Connect(fmt.Sprintf(`"token":%q`, user))
		}
		if a, b := users(x.Nodes[0]), users(x.Nodes[1]); a != "ann bob" || b != "cid" {
			t.Errorf("%q and %q", a, b)
		}
	})
}
