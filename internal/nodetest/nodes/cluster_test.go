package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// names of the nodes that one knows.
func names(t *testing.T, n *gyro.Node) string {
	t.Helper()
	synctest.Wait()
	infos, err := n.Cluster().Nodes(t.Context())
	nodetest.Must(t, err)
	if infos[0].UID != n.UID() {
		t.Errorf("the first of %v is not the node itself", infos)
	}
	var all []string
	for _, i := range infos {
		all = append(all, i.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func wantNames(t *testing.T, n *gyro.Node, want string) {
	t.Helper()
	if got := names(t, n); got != want {
		t.Errorf("the nodes are %q, want %q", got, want)
	}
}

func TestClusterInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		for _, n := range x.Nodes {
			wantNames(t, n, "node0 node1 node2")
		}
		a, b := nodetest.Connect(t, x.Nodes[1], "u"), nodetest.Connect(t, x.Nodes[1], "")
		a.Subscribe("ch", "")
		a.Subscribe("other", "")
		b.Subscribe("ch", "")
		time.Sleep(3100 * time.Millisecond)
		infos, err := x.Nodes[0].Cluster().Nodes(t.Context())
		nodetest.Must(t, err)
		i := slices.IndexFunc(infos, func(i gyro.NodeInfo) bool { return i.UID == x.Nodes[1].UID() })
		want := gyro.NodeInfo{
			UID: x.Nodes[1].UID(), Name: "node1", Version: "v",
			NumClients: 2, NumUsers: 2, NumSubs: 3, NumChannels: 2, Uptime: 3 * time.Second,
		}
		if p := infos[i].Process; p.RSS < 1<<20 {
			t.Errorf("the node tells of a process that takes %+v", p)
		}
		want.Process = infos[i].Process
		if diff := cmp.Diff(want, infos[i]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		nodetest.Must(t, x.Nodes[1].Shutdown(t.Context()))
		wantNames(t, x.Nodes[0], "node0 node2") // at once
		wantNames(t, x.Nodes[1], "node1")
	})
}

func TestNodeThatVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, gyro.Handlers{})
		time.Sleep(time.Minute)
		x.Engines[2].Cut(true)
		time.Sleep(4*time.Second - 1)
		wantNames(t, x.Nodes[0], "node0 node1 node2")
		time.Sleep(12*time.Second + 1)
		wantNames(t, x.Nodes[0], "node0 node1")
		wantNames(t, x.Nodes[2], "node0 node1 node2") // it hears nothing at all, so nobody is silent to it
		x.Engines[2].Cut(false)
		time.Sleep(3 * time.Second)
		wantNames(t, x.Nodes[0], "node0 node1 node2")
	})
}

// A loop that hangs is a matter of health; the node is still there.
func TestNodeThatHangsIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			close(entered)
			<-release
			return gyro.SubscribeReply{}, nil
		}
		bus := bustest.New(t)
		a := nodetest.Run(t, gyro.Config{Broker: bus.Engine(), Logger: nodetest.Quiet})
		b := nodetest.Run(t, gyro.Config{Broker: bus.Engine(), Logger: nodetest.Quiet, Handlers: h, InlineHandlers: true})
		nodetest.Connect(t, b, "u").Start(`"subscribe":{"channel":"ch"}`)
		<-entered
		time.Sleep(time.Minute)
		infos, err := a.Cluster().Nodes(t.Context())
		nodetest.Must(t, err)
		if len(infos) != 2 || infos[1].NumClients != 1 {
			t.Errorf("%+v", infos)
		}
		if h := b.Health()[0]; h.Err == nil {
			t.Error("the node is found to be healthy")
		}
		close(release)
	})
}

// everywhere connects a user to each node.
func everywhere(t *testing.T, x *nodetest.Trio, user string) (clients []*wstest.Client, ids []string) {
	for _, n := range x.Nodes {
		c := wstest.Pipe(t, n)
		clients = append(clients, c)
		ids = append(ids, c.Connect(`"token":"`+user+`"`).Client)
	}
	return clients, ids
}

func TestOperationsByUserAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		mine, ids := everywhere(t, x, "u")
		others, _ := everywhere(t, x, "v")
		ctx := t.Context()
		pushes := func(c *wstest.Client) []*protocol.Push {
			synctest.Wait()
			return c.Pushes()
		}

		nodetest.Must(t, x.Nodes[0].Users().Subscribe(ctx, gyro.Target{User: "u"}, "ch", &gyro.SubscribeOptions{Data: []byte(`7`), Presence: true}))
		for _, c := range mine {
			if p := c.Push(); p.Subscribe == nil || p.Channel != "ch" || string(p.Subscribe.Data) != `7` {
				t.Errorf("got %+v", p)
			}
		}
		who, err := x.Nodes[2].Presence(ctx, "ch")
		nodetest.Must(t, err)
		if got := slices.Sorted(maps.Keys(who)); !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
			t.Errorf("present are %v", got)
		}
		nodetest.Must(t, x.Nodes[1].Users().Subscribe(ctx, gyro.Target{User: "u", Client: ids[2]}, "one", nil))
		if p := mine[2].Push(); p.Subscribe == nil || p.Channel != "one" {
			t.Errorf("got %+v", p)
		}
		nodetest.Must(t, x.Nodes[1].Users().Refresh(ctx, gyro.Target{User: "u", Client: ids[0]}, &gyro.RefreshOptions{ExpireAt: time.Now().Add(time.Minute)}))
		if p := mine[0].Push(); p.Refresh == nil || p.Refresh.TTL != 60 {
			t.Errorf("got %+v", p)
		}
		nodetest.Must(t, x.Nodes[0].Users().Unsubscribe(ctx, gyro.Target{User: "u"}, "ch", &protocol.Unsubscribe{Code: 2600, Reason: "moved"}))
		for _, c := range mine {
			if p := c.Push(); p.Unsubscribe == nil || p.Unsubscribe.Code != 2600 || p.Unsubscribe.Reason != "moved" {
				t.Errorf("got %+v", p)
			}
		}
		nodetest.Must(t, x.Nodes[0].Users().Disconnect(ctx, gyro.Target{User: "u"}, &gyro.DisconnectOptions{Whitelist: []string{ids[0], ids[2]}}))
		nodetest.WantDisconnect(t, mine[1], protocol.DisconnectForceNoReconnect)
		nodetest.Must(t, x.Nodes[0].Users().Disconnect(ctx, gyro.Target{User: "u"}, &gyro.DisconnectOptions{Disconnect: &protocol.Disconnect{Code: 4500, Reason: "bye"}}))
		nodetest.WantDisconnect(t, mine[0], protocol.Disconnect{Code: 4500, Reason: "bye"})
		nodetest.WantDisconnect(t, mine[2], protocol.Disconnect{Code: 4500, Reason: "bye"})
		for _, c := range others {
			if p := pushes(c); len(p) != 0 {
				t.Errorf("another user got %+v", p[0])
			}
			c.Do(`"rpc":{}`)
		}
		nodetest.Must(t, x.Nodes[1].Users().Refresh(ctx, gyro.Target{User: "v"}, &gyro.RefreshOptions{Expired: true}))
		for _, c := range others {
			nodetest.WantDisconnect(t, c, protocol.DisconnectExpired)
		}
	})
}

// If the others cannot be told, nothing happens here either.
func TestOperationsThatCannotBePublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		clients, _ := everywhere(t, x, "u")
		down := errors.New("connection refused")
		x.Engines[0].Fail(down)
		ctx, n := t.Context(), x.Nodes[0]
		for name, err := range map[string]error{
			"subscribe":   n.Users().Subscribe(ctx, gyro.Target{User: "u"}, "ch", nil),
			"unsubscribe": n.Users().Unsubscribe(ctx, gyro.Target{User: "u"}, "ch", nil),
			"refresh":     n.Users().Refresh(ctx, gyro.Target{User: "u"}, &gyro.RefreshOptions{Expired: true}),
			"disconnect":  n.Users().Disconnect(ctx, gyro.Target{User: "u"}, nil),
		} {
			if !errors.Is(err, down) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := n.Cluster().Channels(ctx, ""); !errors.Is(err, down) {
			t.Errorf("channels: %v", err)
		}
		synctest.Wait()
		for _, c := range clients {
			c.Do(`"rpc":{}`)
			if p := c.Pushes(); len(p) != 0 {
				t.Errorf("got %+v", p[0])
			}
		}
	})
}

// A node that does not hear of an operation in time is named, and nothing happens where
// the operation was asked for. One that is back has done it when the operation succeeds.
func TestOperationsAreConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		clients, _ := everywhere(t, x, "u")
		time.Sleep(time.Second)
		x.Engines[2].Cut(true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := x.Nodes[0].Users().Disconnect(ctx, gyro.Target{User: "u"}, nil)
		if !errors.Is(err, gyro.ErrNoAnswer) || !strings.Contains(err.Error(), "node "+x.Nodes[2].UID()+" (node2)") {
			t.Error(err)
		}
		nodetest.WantDisconnect(t, clients[1], protocol.DisconnectForceNoReconnect)
		for _, i := range []int{0, 2} {
			clients[i].Do(`"rpc":{}`)
		}
		go func() {
			time.Sleep(time.Second)
			x.Engines[2].Cut(false)
		}()
		nodetest.Must(t, x.Nodes[0].Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil))
		nodetest.WantDisconnect(t, clients[0], protocol.DisconnectForceNoReconnect)
		nodetest.WantDisconnect(t, clients[2], protocol.DisconnectForceNoReconnect)
	})
}

// The options of a subscription arrive on other nodes as they are.
func TestSubscribeOptionsAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		ctx := t.Context()
		c := nodetest.Connect(t, x.Nodes[1], "u")
		nodetest.Publish(t, x.Nodes[2], "ch", `1`, nodetest.Keep(10, time.Minute))
		top := nodetest.Publish(t, x.Nodes[2], "ch", `2`, nodetest.Keep(10, time.Minute)).Position
		nodetest.Must(t, x.Nodes[0].Users().Subscribe(ctx, gyro.Target{User: "u"}, "ch", &gyro.SubscribeOptions{
			Recoverable: true, RecoverSince: &gyro.StreamPosition{Offset: 1, Epoch: top.Epoch},
			ServerTagsFilter: &protocol.FilterNode{Key: "l", Cmp: "eq", Val: "en"},
			BatchMaxDelay:    time.Second, BatchMaxSize: 10, HistoryMetaTTL: time.Hour,
		}))
		if p := c.Push(); p.Subscribe == nil || !p.Subscribe.Recoverable || p.Subscribe.Epoch != top.Epoch {
			t.Fatalf("got %+v", p)
		}
		start := time.Now()
		tagged := func(l string) *gyro.PublishOptions {
			o := nodetest.Keep(10, time.Minute)
			o.Tags = map[string]string{"l": l}
			return o
		}
		nodetest.Publish(t, x.Nodes[2], "ch", `3`, tagged("de"))
		nodetest.Publish(t, x.Nodes[2], "ch", `4`, tagged("en"))
		if p := c.Pub(); string(p.Data) != `4` || time.Since(start) < time.Second {
			t.Errorf("got %s after %v", p.Data, time.Since(start))
		}
		nodetest.Must(t, x.Nodes[0].Users().Subscribe(ctx, gyro.Target{User: "u"}, "given", &gyro.SubscribeOptions{
			Publications: []*gyro.Publication{{Data: []byte(`"first"`), Tags: map[string]string{"a": "b"}, Info: &gyro.ClientInfo{User: "p"}}},
		}))
		if p := c.Push(); p.Subscribe == nil {
			t.Fatalf("got %+v", p)
		}
		if p := nodetest.WantPub(t, c, `"first"`); p.Tags["a"] != "b" || p.Info.User != "p" {
			t.Errorf("got %+v", p)
		}
	})
}

func TestChannelsAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		for i, n := range x.Nodes {
			c := nodetest.Connect(t, n, "u")
			c.Subscribe("all", "")
			c.Subscribe(fmt.Sprint("chat:", i), "")
			nodetest.Connect(t, n, "v").Subscribe("all", "")
		}
		for pattern, want := range map[string]map[string]int{
			"":              {"all": 6, "chat:0": 1, "chat:1": 1, "chat:2": 1},
			"chat:[12]":     {"chat:1": 1, "chat:2": 1},
			"{all,none}":    {"all": 6},
			"nothing here*": {},
		} {
			channels, err := x.Nodes[0].Cluster().Channels(t.Context(), pattern)
			nodetest.Must(t, err)
			if !maps.Equal(channels, want) {
				t.Errorf("%q: %v, want %v", pattern, channels, want)
			}
		}
		if _, err := x.Nodes[0].Cluster().Channels(t.Context(), "[a"); !errors.Is(err, protocol.ErrorBadRequest) || !strings.Contains(err.Error(), "unclosed") {
			t.Error(err)
		}
		x.Engines[2].Cut(true)
		start := time.Now()
		_, err := x.Nodes[0].Cluster().Channels(t.Context(), "")
		if took := time.Since(start); took > 10*time.Second { // node2 is missed, or found to be lost
			t.Errorf("%v after %v", err, took)
		}
		x.Engines[2].Cut(false)
	})
}

func TestNodeSurvey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		h := gyro.Handlers{Survey: func(_ context.Context, e gyro.SurveyEvent) (gyro.SurveyReply, error) {
			mu.Lock()
			asked = append(asked, e.Node)
			mu.Unlock()
			switch e.Op {
			case "echo":
				return gyro.SurveyReply{Code: 100, Data: e.Data}, nil
			case "fail":
				return gyro.SurveyReply{}, errors.New("secret")
			case "panic":
				panic("secret")
			}
			return gyro.SurveyReply{Code: gyro.SurveyUnknownOp}, nil
		}}
		x := nodetest.NewTrio(t, h)
		deaf := nodetest.Run(t, gyro.Config{Broker: x.Bus.Engine(), Logger: nodetest.Quiet})
		synctest.Wait()
		ctx := t.Context()
		for op, want := range map[string]gyro.SurveyReply{
			"echo":  {Code: 100, Data: []byte("data")},
			"fail":  {Code: gyro.SurveyInternal, Data: []byte("the handler failed")},
			"panic": {Code: gyro.SurveyInternal, Data: []byte("the handler panicked")},
			"what":  {Code: gyro.SurveyUnknownOp},
		} {
			replies, err := x.Nodes[0].Cluster().Survey(ctx, op, []byte("data"), "")
			nodetest.Must(t, err)
			if len(replies) != 4 {
				t.Fatalf("%d replies", len(replies))
			}
			for _, n := range x.Nodes {
				if diff := cmp.Diff(want, replies[n.UID()]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", op, diff)
				}
			}
			if r := replies[deaf.UID()]; r.Code != gyro.SurveyUnknownOp {
				t.Errorf("without a handler: %+v", r)
			}
		}
		for _, from := range asked {
			if from != x.Nodes[0].UID() {
				t.Errorf("asked by %s", from)
			}
		}
		one, err := x.Nodes[0].Cluster().Survey(ctx, "echo", nil, x.Nodes[2].UID())
		if _, ok := one[x.Nodes[2].UID()]; err != nil || !ok || len(one) != 1 {
			t.Errorf("%v, %v", one, err)
		}
		if _, err := x.Nodes[0].Cluster().Survey(ctx, "echo", nil, "nobody"); !errors.Is(err, gyro.ErrUnknownNode) {
			t.Error(err)
		}
		for _, op := range []string{"", "channels", "centrifuge_emulation"} {
			if _, err := x.Nodes[0].Cluster().Survey(ctx, op, nil, ""); err == nil {
				t.Errorf("%q is accepted", op)
			}
		}
	})
}

func TestSurveyOfANodeAlone(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
		Survey: func(ctx context.Context, e gyro.SurveyEvent) (gyro.SurveyReply, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("there is no deadline")
			}
			return gyro.SurveyReply{Data: e.Data}, nil
		},
	}})
	for _, to := range []string{"", node.UID()} {
		replies, err := node.Cluster().Survey(t.Context(), "op", []byte("x"), to)
		if err != nil || string(replies[node.UID()].Data) != "x" || len(replies) != 1 {
			t.Errorf("%v, %v", replies, err)
		}
	}
	if _, err := node.Cluster().Survey(t.Context(), "op", nil, "other"); !errors.Is(err, gyro.ErrUnknownNode) {
		t.Error(err)
	}
	idle, err := gyro.New(gyro.Config{})
	nodetest.Must(t, err)
	if _, err := idle.Cluster().Survey(t.Context(), "op", nil, ""); err == nil {
		t.Error("a node that does not run answers")
	}
}

// A controller may be another engine than the broker.
func TestExplicitController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := bustest.New(t)
		var nodes []*gyro.Node
		for range 2 {
			nodes = append(nodes, nodetest.Run(t, gyro.Config{Controller: bus.Engine(), Logger: nodetest.Quiet, Handlers: gyro.Handlers{Connecting: nodetest.As}}))
		}
		synctest.Wait()
		c := nodetest.Connect(t, nodes[0], "u")
		nodetest.Must(t, nodes[1].Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil))
		nodetest.WantDisconnect(t, c, protocol.DisconnectForceNoReconnect)
		broken := bus.Engine()
		nodetest.Must(t, broken.RunControl("x", func([]byte) {}))
		node, err := gyro.New(gyro.Config{Controller: broken})
		nodetest.Must(t, err)
		if err := node.Run(); err == nil || !strings.Contains(err.Error(), "controller") {
			t.Errorf("Run: %v", err)
		}
	})
}

// A shutdown with a dead controller takes a moment longer, and ends.
func TestShutdownWithoutController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, gyro.Handlers{Connecting: nodetest.As})
		c := nodetest.Connect(t, x.Nodes[0], "u")
		x.Engines[0].Fail(errors.New("connection refused"))
		nodetest.Must(t, x.Nodes[0].Shutdown(t.Context()))
		nodetest.WantDisconnect(t, c, protocol.DisconnectShutdown)
		time.Sleep(16 * time.Second)
		wantNames(t, x.Nodes[1], "node1 node2")
	})
}

// Messages cross the cluster, and the last subscriber's leaving is noticed later.
func TestPublishAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := nodetest.NewTrio(t, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{}))
		clients, _ := everywhere(t, x, "u")
		for _, c := range clients {
			c.Subscribe("ch", "")
		}
		nodetest.Publish(t, x.Nodes[0], "ch", `1`)
		for _, c := range clients {
			nodetest.WantPub(t, c, `1`)
		}
		clients[0].Do(`"unsubscribe":{"channel":"ch"}`)
		if n := x.Bus.Subscribed("ch"); n != 3 {
			t.Errorf("%d nodes are subscribed", n)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := x.Bus.Subscribed("ch"); n != 2 {
			t.Errorf("%d nodes are subscribed", n)
		}
	})
}
