package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/broker/nats"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

// startNode starts a node of the library whose clients may do everything.
func startNode(t *testing.T, cfg gyro.Config) *gyro.Node {
	t.Helper()
	cfg.Handlers = gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
				EmitJoinLeave: true, PushJoinLeave: true, Presence: true, Recoverable: strings.HasPrefix(e.Channel, "recoverable"),
			}}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, nil
		},
	}
	node, err := gyro.New(cfg)
	if err == nil {
		err = node.Run()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return node
}

func onNATS(t *testing.T, cfg nats.Config) gyro.Config {
	t.Helper()
	b, err := nats.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return gyro.Config{Engine: b, Presence: memory.NewPresence(memory.Config{})}
}

// What clients of two nodes see of each other.
func TestNodesOnNATS(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	one := wstest.Pipe(t, startNode(t, onNATS(t, nats.Config{URL: url, AllowWildcards: true})))
	two := wstest.Pipe(t, startNode(t, onNATS(t, nats.Config{URL: url})))
	one.Connect("")
	two.Connect("")
	one.Subscribe("news.sport", "")
	one.Subscribe("news.*", "")
	two.Subscribe("news.sport", "")
	if p := one.Push(); p.Channel != "news.sport" || p.Join == nil { // its own
		t.Errorf("%+v", p)
	}
	if p := one.Push(); p.Channel != "news.sport" || p.Join == nil {
		t.Errorf("%+v", p)
	}
	two.Do(`"publish":{"channel":"news.sport","data":{"goals":3}}`)
	for range 2 {
		p := one.Push()
		if p.Pub == nil || string(p.Pub.Data) != `{"goals":3}` || p.Pub.Channel != "news.sport" || p.Pub.Info.User != "u" {
			t.Errorf("%+v", p)
		}
	}

	for command, want := range map[string]uint32{
		`"subscribe":{"channel":"recoverable"}`: 108,
		`"subscribe":{"channel":"news.*"}`:      107,
		`"subscribe":{"channel":"no name"}`:     107,
		`"publish":{"channel":"*","data":{}}`:   107,
		`"history":{"channel":"news.sport"}`:    108,
	} {
		if r := two.Call(command); r.Error == nil || r.Error.Code != want {
			t.Errorf("%s: %+v, want error %d", command, r.Error, want)
		}
	}
	two.Do(`"publish":{"channel":"news.sport","data":{}}`) // is still there
}

// Nodes that are given one engine share presence and a cluster; so do nodes on NATS that are
// given Redis for the presence alone. Keys and subjects of the library have its own prefix.
func TestEngines(t *testing.T) {
	t.Parallel()
	r, url := redistest.Standalone(t, redistest.Options{}), natstest.Start(t)
	onRedis := func() *redis.Engine {
		e, err := redis.New(redis.Config{Shards: []redis.Shard{{Addresses: []string{r.Addr()}}}})
		if err == nil {
			err = e.Connect(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close(context.Background()) })
		return e
	}
	for name, config := range map[string]func() gyro.Config{
		"redis":          func() gyro.Config { return gyro.Config{Engine: onRedis()} },
		"redis's broker": func() gyro.Config { return gyro.Config{Broker: onRedis().Broker()} },
		"nats and redis": func() gyro.Config {
			cfg := onNATS(t, nats.Config{URL: url})
			return gyro.Config{Engine: onRedis(), Broker: cfg.Engine.Broker()}
		},
	} {
		r.Do("FLUSHALL")
		var nodes [2]*gyro.Node
		for i := range nodes {
			nodes[i] = startNode(t, config())
			c := wstest.Pipe(t, nodes[i])
			c.Connect("")
			c.Subscribe("ch", "")
		}
		for _, node := range nodes {
			wait.Until(t, name+": a cluster", func() bool {
				infos, err := node.Cluster().Nodes(t.Context())
				return err == nil && len(infos) == len(nodes)
			})
			if stats, err := node.PresenceStats(t.Context(), "ch"); err != nil || stats.Clients != 2 {
				t.Errorf("%s: %+v, %v", name, stats, err)
			}
		}
		if keys := r.Do("KEYS", "*presence*"); !strings.Contains(keys, "gyro.presence.data.ch") || strings.Contains(keys, "centrifugo") {
			t.Errorf("%s: the keys are %s", name, keys)
		}
		for _, node := range nodes {
			if err := node.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// The server has the prefix of Centrifugo unless it is configured, also if it is empty.
func TestPrefixOfServer(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"-": "centrifugo", "": "centrifugo", "own": "own"} {
		r := redistest.Standalone(t, redistest.Options{})
		s := startNodes(t, 1, func(cfg *config.Config) {
			onRedis(r)(cfg)
			if prefix != "-" {
				cfg.Engine.Redis.Prefix = prefix
			}
			cfg.Channel.Namespaces[0].HistorySize, cfg.Channel.Namespaces[0].HistoryTTL = 1, time.Minute
		})[0]
		s.api("publish", `{"channel":"ns:a","data":1}`)
		if keys := r.Do("KEYS", "*stream*"); !strings.Contains(keys, want+".stream.ns:a") {
			t.Errorf("prefix %q: the keys are %s", prefix, keys)
		}
	}
}

// TestGhosts: clients that leave while Redis is stopped are not present any more when it
// goes on, nor do additions that are still on the way bring them back.
func TestGhosts(t *testing.T) {
	t.Parallel()
	r := redistest.Standalone(t, redistest.Options{})
	logs := &server{t: t} // which has no node
	e, err := redis.New(redis.Config{Shards: []redis.Shard{{Addresses: []string{r.Addr()}, IOTimeout: time.Second}}, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = e.Connect(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	node := startNode(t, gyro.Config{Presence: e.Presence(), Logger: slog.New(slog.NewTextHandler(logs, nil))})
	present := func(ch string, want int) {
		t.Helper()
		wait.Until(t, fmt.Sprintf("%d clients in %s", want, ch), func() bool {
			stats, err := node.PresenceStats(t.Context(), ch)
			return err == nil && stats.Clients == want
		})
	}
	clients := make([]*wstest.Client, 50)
	for i := range clients {
		clients[i] = wstest.Pipe(t, node)
		clients[i].Connect("")
		clients[i].Subscribe("stayed", "")
	}
	present("stayed", len(clients))
	r.Stop()
	for _, c := range clients {
		c.Start(`"subscribe":{"channel":"came"}`)
	}
	for _, c := range clients {
		c.Vanish()
	}
	wait.Until(t, "a removal fails", func() bool { return strings.Contains(logs.log(), "presence cannot be removed") })
	r.Continue()
	present("stayed", 0)
	present("came", 0)
	again := wstest.Pipe(t, node)
	again.Connect("")
	again.Subscribe("stayed", "") // who comes back stays
	present("stayed", 1)
}
