package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/config/engines"
)

// TestMapBrokers: namespaces with maps in three brokers, two of them with a cache. What the API does on one node,
// clients of the other see, and each map is in its broker alone.
func TestMapBrokers(t *testing.T) {
	t.Parallel()
	standard, first, second := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	dsn := shared.Database(t)
	nodes := startNodes(t, 2, func(cfg *config.Config) {
		onRedis(standard)(cfg)
		cfg.Prometheus.Enabled = true
		cfg.MapBroker.Type, cfg.MapBroker.Redis.Address = engines.TypeRedis, []string{first.Addr()}
		cfg.MapBroker.Cache.Enabled = true
		further := engines.NamedMapBroker{Name: "further", Enabled: true, MapBroker: config.DefaultConfig().MapBroker}
		further.Type, further.Redis.Address = engines.TypeRedis, []string{second.Addr()}
		tables := engines.NamedMapBroker{Name: "tables", Enabled: true, MapBroker: config.DefaultConfig().MapBroker}
		tables.Type, tables.Postgres.DSN, tables.Postgres.PoolSize, tables.Postgres.UseNotify = engines.TypePostgres, dsn, 4, true
		tables.Cache.Enabled = true
		cfg.MapBrokers = []engines.NamedMapBroker{further, tables}
		for name, of := range map[string]string{"standard": "", "further": "further", "tables": "tables"} {
			ns := config.Namespace{Name: name, ChannelOptions: cfg.Channel.WithoutNamespace}
			ns.SubscriptionType, ns.Map.Mode, ns.Map.BrokerName = config.TypeMap, "persistent", of
			ns.AllowSubscribeForClient, ns.Map.AllowPublishForSubscriber = true, true
			cfg.Channel.Namespaces = append(cfg.Channel.Namespaces, ns)
		}
	})
	for _, ns := range []string{"standard", "further", "tables"} {
		testMap(t, nodes[0], nodes[1], ns+":a")
	}
	for i, of := range []struct {
		server *redistest.Server
		want   string
	}{{standard, ""}, {first, "standard:a"}, {second, "further:a"}} {
		keys := of.server.Do("KEYS", "*:a")
		for _, ch := range []string{"standard:a", "further:a", "tables:a"} {
			if strings.Contains(keys, ch) != (ch == of.want) {
				t.Errorf("Redis %d has the keys %s, want those of %q", i, keys, of.want)
			}
		}
	}
	for _, labels := range [][]string{{"redis", "map_broker/"}, {"postgres", "map_broker/tables"}} {
		if hits := nodes[1].metric("broker_"+labels[0]+"_map_cache_hits_total", labels[1]); hits < 10 {
			t.Errorf("%s: %v reads were answered from memory", labels[1], hits)
		}
		nodes[1].eventually("broker_delivers", []string{labels[1], "0"}, exactly1)
	}
	if hits := nodes[1].metric("broker_redis_map_cache_hits_total", "map_broker/further"); hits != -1 {
		t.Errorf("%v reads were answered from memory without a cache", hits)
	}
}

// A cache of maps that are in memory has no effect: maps work as without it.
func TestCacheOfMemory(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 1, func(cfg *config.Config) {
		cfg.MapBroker.Cache.Enabled = true
		ns := config.Namespace{Name: "map", ChannelOptions: cfg.Channel.WithoutNamespace}
		ns.SubscriptionType, ns.Map.Mode = config.TypeMap, "persistent"
		ns.AllowSubscribeForClient, ns.Map.AllowPublishForSubscriber = true, true
		cfg.Channel.Namespaces = append(cfg.Channel.Namespaces, ns)
	})
	testMap(t, nodes[0], nodes[0], "map:a")
}

// testMap changes a map by the API of one node, and reads it on another.
func testMap(t *testing.T, a, b *server, ch string) {
	t.Helper()
	set := func(s *server, key string, value int) {
		t.Helper()
		s.api("map_publish", fmt.Sprintf(`{"channel":%q,"key":%q,"data":%d}`, ch, key, value))
	}
	set(a, "x", 1)
	c := b.connect("ann")
	r := c.Call(fmt.Sprintf(`"subscribe":{"channel":%q,"type":1,"phase":2}`, ch))
	if r.Error != nil || len(r.Subscribe.State) != 1 || string(r.Subscribe.State[0].Data) != "1" {
		t.Fatalf("%s: %+v", ch, r)
	}
	for i := range 10 {
		set(a, "x", 10+i)
		if p := c.Pub(); p.Key != "x" || string(p.Data) != fmt.Sprint(10+i) {
			t.Fatalf("%s: %+v", ch, p)
		}
		if got := b.api("map_read_state", fmt.Sprintf(`{"channel":%q,"limit":10}`, ch)); !strings.Contains(got, fmt.Sprintf(`"data":%d`, 10+i)) {
			t.Fatalf("%s: %s, want %d", ch, got, 10+i)
		}
	}
	set(b, "y", 5) // and who writes here reads it here
	if got := b.api("map_stats", fmt.Sprintf(`{"channel":%q}`, ch)); !strings.Contains(got, `2`) {
		t.Errorf("%s: %s", ch, got)
	}
	c.Do(fmt.Sprintf(`"publish":{"channel":%q,"type":1,"key":"z","data":6}`, ch))
	for _, s := range []*server{a, b} {
		wait.Until(t, "the client's entry", func() bool {
			return strings.Contains(s.api("map_read_state", fmt.Sprintf(`{"channel":%q,"key":"z"}`, ch)), `"data":6`)
		})
	}
	late := b.connect("bob")
	if r := late.Call(fmt.Sprintf(`"subscribe":{"channel":%q,"type":1,"phase":2}`, ch)); r.Error != nil || len(r.Subscribe.State) != 3 {
		t.Errorf("%s: %+v", ch, r)
	}
	a.api("map_clear", fmt.Sprintf(`{"channel":%q}`, ch))
	wait.Until(t, "the end of the map", func() bool {
		return !strings.Contains(b.api("map_read_state", fmt.Sprintf(`{"channel":%q,"limit":10}`, ch)), `"key"`)
	})
}
