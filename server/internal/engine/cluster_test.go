package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/postgres/postgrestest"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/app"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

// onRedis configures the engine to use these servers, each a shard.
func onRedis(servers ...*redistest.Server) func(*config.Config) {
	return func(cfg *config.Config) {
		cfg.Engine.Type = engines.TypeRedis
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
	"nats": {false, false, func(t *testing.T) func(*config.Config) {
		url := natstest.Start(t)
		return func(cfg *config.Config) {
			cfg.Broker.Enabled, cfg.Broker.Type, cfg.Broker.NATS.URL = true, engines.TypeNATS, url
		}
	}, `"engine":"memory","broker":"nats"`},
	"nats with presence in redis": {false, true, func(t *testing.T) func(*config.Config) {
		url, redis := natstest.Start(t), redistest.Standalone(t, redistest.Options{})
		return func(cfg *config.Config) {
			cfg.Broker.Enabled, cfg.Broker.Type, cfg.Broker.NATS.URL = true, engines.TypeNATS, url
			cfg.PresenceManager.Enabled, cfg.PresenceManager.Type = true, engines.TypeRedis
			cfg.PresenceManager.Redis.Address = []string{redis.Addr()}
		}
	}, `"broker":"nats","presence_manager":"redis standalone"`},
	"redis, and nats for a namespace": {false, true, func(t *testing.T) func(*config.Config) {
		url, redis := natstest.Start(t), onRedis(redistest.Standalone(t, redistest.Options{}))
		return func(cfg *config.Config) {
			redis(cfg)
			named := engines.NamedBroker{Name: "fast", Broker: cfg.Broker}
			named.Enabled, named.Type, named.NATS.URL = true, engines.TypeNATS, url
			cfg.Brokers = []engines.NamedBroker{named}
			cfg.Channel.Namespaces[0].BrokerName = "fast"
		}
	}, `"engine":"redis standalone","brokers[0](fast)":"nats"`},
	"postgres": {true, false, func(t *testing.T) func(*config.Config) {
		return onPostgres(t)
	}, `"engine":"memory","broker":"postgres"`},
	"postgres, fan-out over redis": {true, false, func(t *testing.T) func(*config.Config) {
		edit, redis := onPostgres(t), redistest.Standalone(t, redistest.Options{})
		return func(cfg *config.Config) {
			edit(cfg)
			f := &cfg.Broker.Postgres.BrokerFanout
			f.Enabled, f.Redis.Address = true, []string{redis.Addr()}
		}
	}, `"engine":"memory","broker":"postgres"`},
	"postgres, fan-out over nats": {true, false, func(t *testing.T) func(*config.Config) {
		edit, url := onPostgres(t), natstest.Start(t)
		return func(cfg *config.Config) {
			edit(cfg)
			f := &cfg.Broker.Postgres.BrokerFanout
			f.Enabled, f.Type, f.NATS.URL = true, engines.TypeNATS, url
		}
	}, `"engine":"memory","broker":"postgres"`},
	"memory with a controller on postgres, and nats": {false, false, func(t *testing.T) func(*config.Config) {
		url, dsn := natstest.Start(t), shared.Database(t)
		return func(cfg *config.Config) {
			cfg.Broker.Enabled, cfg.Broker.Type, cfg.Broker.NATS.URL = true, engines.TypeNATS, url
			cfg.Controller.Enabled, cfg.Controller.Type = true, engines.TypePostgres
			cfg.Controller.Postgres.DSN, cfg.Controller.Postgres.UseNotify = dsn, true
		}
	}, `"broker":"nats","controller":"postgres"`},
}

// onPostgres configures the broker to be on a database of its own.
func onPostgres(t *testing.T) func(*config.Config) {
	dsn := shared.Database(t)
	return func(cfg *config.Config) {
		cfg.Broker.Enabled, cfg.Broker.Type = true, engines.TypePostgres
		cfg.Broker.Postgres.DSN, cfg.Broker.Postgres.PoolSize = dsn, 4
		cfg.Broker.Postgres.UseNotify, cfg.Broker.Postgres.BinaryData = true, true
	}
}

// shared is the PostgreSQL of all tests.
var shared = postgrestest.Shared{Options: postgrestest.Options{Settings: []string{"fsync=off", "max_connections=400"}}}

func TestMain(m *testing.M) {
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

// Secrets of the tests.
const (
	tokenSecret = "hmac-secret-of-the-tests"
	apiKey      = "api-key-of-the-tests"
)

// server is a node with real listeners on loopback.
type server struct {
	t    *testing.T
	app  *app.App
	stop func()

	mu   sync.Mutex
	logs bytes.Buffer
}

// Write takes log lines.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.Write(p)
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs.String()
}

// startNodes starts n servers with one configuration; ns is their namespace.
func startNodes(t *testing.T, n int, edit func(*config.Config)) []*server {
	t.Helper()
	nodes := make([]*server, n)
	for i := range nodes {
		cfg := config.DefaultConfig()
		cfg.HTTPServer.Address, cfg.HTTPServer.Port = "127.0.0.1", 0
		cfg.Client.Token.HMACSecretKey, cfg.HTTPAPI.Key = tokenSecret, apiKey
		cfg.Node.Name, cfg.Health.Enabled = fmt.Sprintf("node-%d", i), true
		ns := config.Namespace{Name: "ns", ChannelOptions: cfg.Channel.WithoutNamespace}
		ns.JoinLeave, ns.ForcePushJoinLeave = true, true
		ns.AllowSubscribeForClient, ns.AllowPublishForSubscriber = true, true
		cfg.Channel.Namespaces = []config.Namespace{ns}
		edit(cfg)
		nodes[i] = start(t, cfg)
	}
	return nodes
}

func start(t *testing.T, cfg *config.Config) *server {
	t.Helper()
	s := &server{t: t}
	var err error
	if s.app, err = app.New(cfg, app.Options{Version: "test", Logger: slog.New(slog.NewJSONHandler(s, nil))}); err != nil {
		t.Fatal(err)
	}
	if err := s.app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
		defer cancel()
		if err := s.app.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *server) url(path string) string { return "http://" + s.app.Addr("external") + path }

// connect opens a connection of a user.
func (s *server) connect(user string) *wstest.Client {
	s.t.Helper()
	token, err := auth.Sign(config.Token{HMACSecretKey: tokenSecret}, auth.Claims{User: user, TTL: time.Hour}, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	c := wstest.Dial(s.t, s.url("/connection/websocket"), nil)
	c.Connect(`"token":"` + token + `"`)
	return c
}

// api calls a method, which must not fail, and returns the answer.
func (s *server) api(method, body string) string {
	s.t.Helper()
	status, answer := s.request(http.MethodPost, "/api/"+method, body)
	if status != http.StatusOK || strings.Contains(answer, `"error"`) {
		s.t.Fatalf("API %s %s: %d %s", method, body, status, answer)
	}
	return answer
}

func (s *server) health() (status int, body string) {
	s.t.Helper()
	return s.request(http.MethodGet, "/health", "")
}

func (s *server) request(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url(path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("X-API-Key", apiKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// nodeNames returns the names of the nodes that a server knows.
func (s *server) nodeNames() string {
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
			wait.Until(t, "the log says "+c.log, func() bool { return strings.Contains(a.log(), c.log) })
			for _, s := range nodes {
				wait.Until(t, "info of two nodes", func() bool { return s.nodeNames() == "map[node-0:true node-1:true]" })
				wait.Until(t, "health", func() bool {
					status, _ := s.health() // until the first canary is back, nothing is proven
					return status == http.StatusOK
				})
			}
			ann := a.connect("ann")
			ann.Subscribe("ns:a", "")
			if join := ann.Push(); join.Join == nil || join.Join.Info.User != "ann" {
				t.Fatalf("%+v", join)
			}
			testAcross(t, a, b, c.presence)
			testCommands(t, a, b)
			b.stop()
			wait.Until(t, "info of one node", func() bool { return a.nodeNames() == "map[node-0:true]" })
		})
	}
}

// testAcross publishes on one node to a subscriber on another, in both ways, and asks
// each about the clients of the other.
func testAcross(t *testing.T, a, b *server, presence bool) {
	t.Helper()
	left := a.connect("left")
	left.Subscribe("ns:x", "")
	left.Push() // its own join
	right := b.connect("right")
	right.Subscribe("ns:x", "")
	if join := left.Push(); join.Join == nil || join.Join.Info.User != "right" {
		t.Fatalf("%+v", join)
	}
	for join := right.Push(); join.Join == nil || join.Join.Info.User != "right"; join = right.Push() {
		if join.Join == nil { // that of left may come late
			t.Fatalf("%+v", join)
		}
	}
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
func testCommands(t *testing.T, a, b *server) {
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
	c := s.connect("u")
	c.Subscribe("ns:a", "")
	c.Push()
	if status, body := s.health(); status != http.StatusOK || !strings.Contains(body, redis.Addr()) {
		t.Fatalf("%d %s", status, body)
	}
	redis.Stop()
	wait.Until(t, "503", func() bool {
		status, body := s.health()
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"error":"`) && strings.Contains(body, redis.Addr())
	})
	for path, want := range map[string]int{"/health/live": http.StatusOK, "/health/ready": http.StatusServiceUnavailable} {
		if status, body := s.request(http.MethodGet, path, ""); status != want {
			t.Errorf("%s without Redis: %d %s", path, status, body) // a restart of the node would not help
		}
	}
	begin := time.Now()
	if status, answer := s.request(http.MethodPost, "/api/publish", `{"channel":"ns:a","data":1}`); status != http.StatusOK || !strings.Contains(answer, `"code":100`) {
		t.Errorf("publish: %d %s", status, answer)
	}
	if took := time.Since(begin); took > wait.Limit {
		t.Errorf("the answer took %s", took)
	}
	redis.Continue()
	wait.Until(t, "200", func() bool { status, _ := s.health(); return status == http.StatusOK })
	s.api("publish", `{"channel":"ns:a","data":"again"}`)
	for {
		p := c.Pub()
		if string(p.Data) == `"again"` {
			break
		}
	}
}
