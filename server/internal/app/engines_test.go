package app

import (
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
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
			cfg.Engine.Type, cfg.Engine.Redis.Address = engines.TypeRedis, []string{"redis://u:hush-hush@127.0.0.1:1"}
		}, []string{"engine.redis", "127.0.0.1:1", "refused"}},
		"wrong password": {func(cfg *config.Config) {
			onRedis(redis)(cfg)
			cfg.Engine.Redis.Password = "hush-hush"
		}, []string{"engine.redis", "WRONGPASS"}},
		"presence manager": {func(cfg *config.Config) {
			cfg.PresenceManager.Enabled, cfg.PresenceManager.Type = true, engines.TypeRedis
			cfg.PresenceManager.Redis.Address = []string{"127.0.0.1:1"}
		}, []string{"presence_manager.redis", "127.0.0.1:1"}},
		"nats refuses": {func(cfg *config.Config) {
			cfg.Broker.Enabled, cfg.Broker.Type, cfg.Broker.NATS.URL = true, engines.TypeNATS, "nats://u:hush-hush@127.0.0.1:1"
		}, []string{"nats", "127.0.0.1:1"}},
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
	configure := func(cfg *config.Config) {
		named := engines.NamedBroker{Name: "other", Broker: cfg.Broker}
		named.Enabled = true
		cfg.Brokers = []engines.NamedBroker{named}
		addNamespace(cfg, "one", nil)
		addNamespace(cfg, "two", func(o *options) { o.BrokerName = "other" })
	}
	s := startServer(t, configure)
	for name, tt := range map[string]struct {
		edit func(*config.Config)
		want string
	}{
		"nothing": {func(*config.Config) {}, ""},
		"another": {func(cfg *config.Config) { cfg.Channel.Namespaces[0].BrokerName = "other" },
			"channel.namespaces[0](one): broker_name, map.broker_name, presence_manager_name and whether channels are maps, or show them, cannot change"},
		"none":     {func(cfg *config.Config) { cfg.Channel.Namespaces[1].BrokerName = "" }, "channel.namespaces[1](two)"},
		"boundary": {func(cfg *config.Config) { cfg.Channel.NamespaceBoundary = "/" }, "channel.namespace_boundary"},
		"late broker": {func(cfg *config.Config) {
			cfg.Brokers = append(cfg.Brokers, engines.NamedBroker{Name: "late", Broker: cfg.Brokers[0].Broker})
			addNamespace(cfg, "three", func(o *options) { o.BrokerName = "late" })
		}, `channel.namespaces[2](three).broker_name: there is no enabled element "late" of brokers (keys that cannot change without a restart: brokers)`},
		"shown maps": {func(cfg *config.Config) {
			addNamespace(cfg, "board", func(o *options) {
				o.SubscriptionType, o.Map.Mode, o.Map.FullStatePrefix = config.TypeMap, "persistent", "whole:"
			})
			addNamespace(cfg, "whole", nil)
		}, "channel.namespaces[3](whole): the server was started without full-state channels: restart it"},
		"new namespace": {func(cfg *config.Config) {
			addNamespace(cfg, "four", func(o *options) { o.BrokerName = "other" })
		}, ""},
	} {
		err := s.app.Reload(testConfig(func(cfg *config.Config) {
			configure(cfg)
			tt.edit(cfg)
		}))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
