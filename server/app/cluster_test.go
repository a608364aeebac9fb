package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/config"
)

// onRedis configures the engine to use these servers, each a shard.
func onRedis(servers ...*redistest.Server) func(*config.Config) {
	return func(cfg *config.Config) {
		cfg.Engine.Type = config.TypeRedis
		cfg.Engine.Redis.Address = nil
		for _, s := range servers {
			cfg.Engine.Redis.Address = append(cfg.Engine.Redis.Address, "redis://"+s.Addr())
		}
	}
}

// clusters are the topologies that the tests below are run on.
var clusters = map[string]struct {
	history, presence bool
	start             func(t *testing.T) (edit func(*config.Config))
	log               string // what the log says of the engines
}{
	"redis": {true, true, func(t *testing.T) func(*config.Config) {
		return onRedis(redistest.Standalone(t, redistest.Options{}))
	}, `"engine":"redis standalone"`},
	"redis, two shards": {true, true, func(t *testing.T) func(*config.Config) {
		return onRedis(redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{}))
	}, `"engine":"redis sharded(2):standalone-x2"`},
}

// startNodes starts n servers with one configuration; ns is their namespace.
func startNodes(t *testing.T, n int, edit func(*config.Config)) []*testServer {
	t.Helper()
	nodes := make([]*testServer, n)
	for i := range nodes {
		nodes[i] = startServer(t, func(cfg *config.Config) {
			cfg.Node.Name, cfg.Health.Enabled = fmt.Sprintf("node-%d", i), true
			addNamespace(cfg, "ns", func(o *options) {
				o.JoinLeave, o.ForcePushJoinLeave = true, true
				o.AllowSubscribeForClient, o.AllowPublishForSubscriber = true, true
			})
			edit(cfg)
		})
	}
	return nodes
}

// nodeNames returns the names of the nodes that a server knows.
func (s *testServer) nodeNames() string {
	s.t.Helper()
	var answer struct {
		Result struct {
			Nodes []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(s.api("info", "{}")), &answer); err != nil {
		s.t.Fatal(err)
	}
	names := map[string]bool{}
	for _, n := range answer.Result.Nodes {
		names[n.Name] = true
	}
	return fmt.Sprint(names)
}

// eventually polls for what a cluster takes a moment to agree on.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// TestCluster: what can be done on one node can be done on another.
func TestCluster(t *testing.T) {
	t.Parallel()
	for name, c := range clusters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := c.start(t)
			nodes := startNodes(t, 2, func(cfg *config.Config) {
				o := &cfg.Channel.Namespaces[0].ChannelOptions
				o.Presence = c.presence
				if c.history {
					o.HistorySize, o.HistoryTTL, o.ForceRecovery = 10, time.Minute, true
				}
				engine(cfg)
			})
			a, b := nodes[0], nodes[1]
			if logs := a.logs.String(); !strings.Contains(logs, c.log) {
				t.Errorf("the log does not say %s:\n%s", c.log, logs)
			}
			for _, s := range nodes {
				eventually(t, "info of two nodes", func() bool { return s.nodeNames() == "map[node-0:true node-1:true]" })
				if status, body := get(t, s.url("/health")); status != http.StatusOK {
					t.Errorf("health: %d %s", status, body)
				}
			}
			ann := a.connect("ann")
			ann.Subscribe("ns:a", "")
			if join := ann.Push(); join.Join == nil || join.Join.Info.User != "ann" {
				t.Fatalf("%+v", join)
			}
			testAcross(t, a, b, c.presence)
			testCommands(t, a, b)
			b.stop()
			eventually(t, "info of one node", func() bool { return a.nodeNames() == "map[node-0:true]" })
		})
	}
}

// testAcross publishes on one node to a subscriber on another, in both ways, and asks
// each about the clients of the other.
func testAcross(t *testing.T, a, b *testServer, presence bool) {
	t.Helper()
	left := a.connect("left")
	left.Subscribe("ns:x", "")
	left.Push() // its own join
	right := b.connect("right")
	right.Subscribe("ns:x", "")
	if join := left.Push(); join.Join == nil || join.Join.Info.User != "right" {
		t.Fatalf("%+v", join)
	}
	right.Push()
	b.api("publish", `{"channel":"ns:x","data":{"n":1}}`)
	right.Do(`"publish":{"channel":"ns:x","data":{"n":2}}`)
	left.Do(`"publish":{"channel":"ns:x","data":{"n":3}}`)
	for n := range 3 {
		want := fmt.Sprintf(`{"n":%d}`, n+1)
		if l, r := left.Pub(), right.Pub(); string(l.Data) != want || string(r.Data) != want {
			t.Fatalf("got %s and %s, want %s", l.Data, r.Data, want)
		}
	}
	if got := b.api("channels", `{"pattern":"ns:x"}`); !strings.Contains(got, `"ns:x":{"num_clients":2}`) {
		t.Errorf("channels: %s", got)
	}
	if presence {
		if got := b.api("presence_stats", `{"channel":"ns:x"}`); !strings.Contains(got, `{"num_clients":2,"num_users":2}`) {
			t.Errorf("presence: %s", got)
		}
	}
	b.api("unsubscribe", `{"user":"left","channel":"ns:x"}`)
	for {
		if p := left.Push(); p.Unsubscribe != nil {
			break
		}
	}
}

// testCommands makes each node act on a client of the other.
func testCommands(t *testing.T, a, b *testServer) {
	t.Helper()
	bob := b.connect("bob")
	a.api("subscribe", `{"user":"bob","channel":"ns:server"}`)
	if p := bob.Push(); p.Subscribe == nil || p.Channel != "ns:server" {
		t.Errorf("%+v", p)
	}
	a.api("disconnect", `{"user":"bob"}`)
	if d := bob.Disconnected(); d != protocol.DisconnectForceNoReconnect {
		t.Errorf("bob ended with %v", d)
	}
	carl := a.connect("carl")
	b.api("refresh", `{"user":"carl","expired":true}`)
	if d := carl.Disconnected(); d != protocol.DisconnectExpired {
		t.Errorf("carl ended with %v", d)
	}
}

// TestHealthOfRedis: a Redis that hangs is noticed, a node that does not deliver says
// so, and it recovers by itself.
func TestHealthOfRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	s := startNodes(t, 1, func(cfg *config.Config) {
		onRedis(redis)(cfg)
		cfg.Engine.Redis.IOTimeout = time.Second
		cfg.Channel.Namespaces[0].HistorySize, cfg.Channel.Namespaces[0].HistoryTTL = 10, time.Minute
		cfg.Channel.Namespaces[0].ForceRecovery = true
	})[0]
	s.failing = true
	c := s.connect("u")
	c.Subscribe("ns:a", "")
	c.Push()
	health := func() (int, string) { return get(t, s.url("/health")) }
	if status, body := health(); status != http.StatusOK || !strings.Contains(body, redis.Addr()) {
		t.Fatalf("%d %s", status, body)
	}
	redis.Stop()
	eventually(t, "503", func() bool {
		status, body := health()
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"error":"`) && strings.Contains(body, redis.Addr())
	})
	begin := time.Now()
	if status, answer := s.post("/api/publish", `{"channel":"ns:a","data":1}`); status != http.StatusOK || !strings.Contains(answer, `"code":100`) {
		t.Errorf("publish: %d %s", status, answer)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the answer took %s", took)
	}
	redis.Continue()
	eventually(t, "200", func() bool { status, _ := health(); return status == http.StatusOK })
	s.api("publish", `{"channel":"ns:a","data":"again"}`)
	for {
		p := c.Pub()
		if string(p.Data) == `"again"` {
			break
		}
	}
}

// TestStartWithoutEngine: a server that cannot reach its engine says which one, keeps
// the password to itself, and leaves nothing behind.
func TestStartWithoutEngine(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{Password: "right-password"})
	for name, tt := range map[string]struct {
		edit func(*config.Config)
		want []string
	}{
		"redis refuses": {func(cfg *config.Config) {
			cfg.Engine.Type, cfg.Engine.Redis.Address = config.TypeRedis, []string{"redis://u:hush-hush@127.0.0.1:1"}
		}, []string{"engine.redis", "127.0.0.1:1", "refused"}},
		"wrong password": {func(cfg *config.Config) {
			onRedis(redis)(cfg)
			cfg.Engine.Redis.Password = "hush-hush"
		}, []string{"engine.redis", "WRONGPASS"}},
		"presence manager": {func(cfg *config.Config) {
			cfg.PresenceManager.Enabled, cfg.PresenceManager.Type = true, config.TypeRedis
			cfg.PresenceManager.Redis.Address = []string{"127.0.0.1:1"}
		}, []string{"presence_manager.redis", "127.0.0.1:1"}},
	} {
		a, err := New(testConfig(tt.edit), Options{Logger: discard})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = a.Start(t.Context())
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: a password is in %v", name, err)
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Errorf("%s: shutdown: %v", name, err)
		}
	}
}

// TestStartWaitsForRedis as long as start_timeout says.
func TestStartWaitsForRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	redis.Kill()
	a := must(New(testConfig(func(cfg *config.Config) {
		onRedis(redis)(cfg)
		cfg.Engine.Redis.StartTimeout = time.Minute
	}), Options{Logger: discard}))
	started := make(chan error, 1)
	go func() { started <- a.Start(t.Context()) }()
	select {
	case err := <-started:
		t.Fatalf("started without Redis: %v", err)
	case <-time.After(300 * time.Millisecond): // some attempts
	}
	redis.Restart(true)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := a.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReloadKeepsEngines: channels do not move while they are used.
func TestReloadKeepsEngines(t *testing.T) {
	t.Parallel()
	engines := func(cfg *config.Config) {
		named := config.NamedBroker{Name: "other", Broker: cfg.Broker}
		named.Enabled = true
		cfg.Brokers = []config.NamedBroker{named}
		addNamespace(cfg, "one", nil)
		addNamespace(cfg, "two", func(o *options) { o.BrokerName = "other" })
	}
	s := startServer(t, engines)
	for name, tt := range map[string]struct {
		edit func(*config.Config)
		want string
	}{
		"nothing": {func(*config.Config) {}, ""},
		"another": {func(cfg *config.Config) { cfg.Channel.Namespaces[0].BrokerName = "other" },
			"channel.namespaces[0](one): broker_name and presence_manager_name cannot change"},
		"none":     {func(cfg *config.Config) { cfg.Channel.Namespaces[1].BrokerName = "" }, "channel.namespaces[1](two)"},
		"boundary": {func(cfg *config.Config) { cfg.Channel.NamespaceBoundary = "/" }, "channel.namespace_boundary"},
		"late broker": {func(cfg *config.Config) {
			cfg.Brokers = append(cfg.Brokers, config.NamedBroker{Name: "late", Broker: cfg.Brokers[0].Broker})
			addNamespace(cfg, "three", func(o *options) { o.BrokerName = "late" })
		}, "channel.namespaces[2](three): broker_name"},
		"new namespace": {func(cfg *config.Config) {
			addNamespace(cfg, "four", func(o *options) { o.BrokerName = "other" })
		}, ""},
	} {
		err := s.app.Reload(testConfig(func(cfg *config.Config) {
			engines(cfg)
			tt.edit(cfg)
		}))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
