package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/server/internal/channels"
	"github.com/gyrohq/gyro/server/internal/config"
)

// load reads a configuration file's text.
func load(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(config.Options{File: file, RequireFile: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// newSet returns the set of a configuration, and its routes once the caller has made some.
func newSet(t *testing.T, text string) (*Set, *atomic.Pointer[Assignment], error) {
	t.Helper()
	routes := new(atomic.Pointer[Assignment])
	s, err := New(load(t, text), routes.Load, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return s, routes, err
}

// routesOf returns the routes of a set by a configuration that follows another.
func routesOf(t *testing.T, s *Set, text string, before *Assignment) (*Assignment, error) {
	t.Helper()
	cfg := load(t, text)
	resolver, err := channels.NewResolver(cfg.Channel, cfg.Client.UserPersonalChannel)
	if err != nil {
		t.Fatal(err)
	}
	return s.Assign(cfg, resolver, before)
}

func TestDescribe(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "[engine memory]",
		`{"engine":{"type":"redis"}}`: "[engine redis standalone]",
		`{"broker":{"enabled":true}}`: "[engine memory broker memory]",
		`{"engine":{"type":"x"},"broker":{"enabled":true},"presence_manager":{"enabled":true}}`:                                                                             "[broker memory presence_manager memory]",
		`{"engine":{"type":"redis","redis":{"address":["a:1","redis+sentinel://b:1?sentinel_master_name=m","redis+sentinel://c:1?sentinel_master_name=m"]}}}`:               "[engine redis sharded(3):standalone,sentinel-x2]",
		`{"engine":{"type":"redis","redis":{"address":["a:1","unix:///r.sock"]}}}`:                                                                                          "[engine redis sharded(2):standalone-x2]",
		`{"engine":{"type":"redis","redis":{"address":["a:1"],"sentinel_address":["b:1,c:1"],"sentinel_master_name":"m"}}}`:                                                 "[engine redis sentinel]",
		`{"engine":{"type":"redis","redis":{"sentinel_address":["b:1"],"cluster_address":["c:1,d:1"]}}}`:                                                                    "[engine redis cluster]",
		`{"broker":{"enabled":true,"type":"nats"},"presence_manager":{"enabled":true,"type":"redis"}}`:                                                                      "[broker nats presence_manager redis standalone]",
		`{"brokers":[{"name":"b1","enabled":true,"type":"redis"},{"name":"b2","type":"redis"}],"presence_managers":[{"name":"p1","enabled":true,"type":"redis"}]}`:          "[engine memory brokers[0](b1) redis standalone presence_managers[0](p1) redis standalone]",
		`{"map_brokers":[{"name":"m1","enabled":true,"type":"redis"},{"name":"m2","type":"redis"}],"channel":{"without_namespace":{` + aMap + `}}}`:                         "[engine memory map_brokers[0](m1) redis standalone map_broker memory]",
		`{"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"postgres://a"}},"controller":{"enabled":true,"type":"postgres","postgres":{"dsn":"postgres://a"}}}`: "[engine memory broker postgres controller postgres]",
	} {
		s, _, err := newSet(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := fmt.Sprint(s.Describe()); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// TestErrors: each names its key, and none shows a password.
func TestErrors(t *testing.T) {
	redis := func(section string) string { return `{"engine":{"type":"redis","redis":{` + section + `}}}` }
	for text, want := range map[string]string{
		redis(`"address":["ftp://u:hush-hush@a:1"]`):                                                    "engine.redis.address[0]: ",
		redis(`"address":["a:1","redis://u:hush-hush@a:b"]`):                                            "engine.redis.address[1]: ",
		redis(`"address":["a:1","redis://u:hush-hush@a/x"]`):                                            "engine.redis.address[1]: ",
		redis(`"cluster_address":["redis://u:hush-hush@a:1"]`):                                          "engine.redis.cluster_address[0]: ",
		redis(`"sentinel_address":["a:1,a"],"sentinel_master_name":"m"`):                                "engine.redis.sentinel_address[0]: ",
		redis(`"cluster_address":["a:1"],"db":3,"password":"hush-hush"`):                                "engine.redis: ",
		redis(`"address":["a:1","redis+sentinel://a:1"],"password":"hush-hush"`):                        "engine.redis: ",
		redis(`"prefix":"{x}"`):                                                                         "engine.redis: ",
		redis(`"io_timeout":"1ms"`):                                                                     "engine.redis: ",
		redis(`"presence_read_from_replica":true`):                                                      "engine.redis: ",
		`{"broker":{"enabled":true,"type":"nats","nats":{"url":"ftp://u:hush-hush@a"}}}`:                "broker.nats: ",
		`{"broker":{"enabled":true,"type":"nats","nats":{"prefix":"a b"}}}`:                             "broker.nats: ",
		`{"presence_manager":{"enabled":true,"type":"redis","redis":{"address":["a"]}}}`:                "presence_manager.redis.address[0]: ",
		`{"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"postgres://u:hush-hush@a:b"}}}`: "broker.postgres: ",
		`{"broker":{"enabled":true,"type":"postgres","postgres":{"dsn":"postgres://a","use_notify":true,"notify_dsn":"postgres://u:hush-hush@a:b"}}}`:                                "broker.postgres: ",
		`{"controller":{"enabled":true,"type":"postgres","postgres":{"dsn":"postgres://u:hush-hush@a:b"}}}`:                                                                          "controller.postgres: ",
		`{"map_broker":{"type":"postgres","postgres":{"dsn":"postgres://u:hush-hush@a:b"}},"channel":{"without_namespace":{"subscription_type":"map","map":{"mode":"persistent"}}}}`: "map_broker.postgres: ",
		`{"map_brokers":[{"name":"m1","enabled":true,"type":"redis","redis":{"address":["a"]}}]}`:                                                                                    "map_brokers[0](m1).redis.address[0]: ",
		`{"map_brokers":[{"name":"m1","enabled":true,"type":"postgres","postgres":{"dsn":"postgres://u:hush-hush@a:b"}}]}`:                                                           "map_brokers[0](m1).postgres: ",
		`{"brokers":[{"name":"b1","enabled":true,"type":"redis","redis":{"address":["a"]}}]}`:                                                                                        "brokers[0](b1).redis.address[0]: ",
		`{"presence_managers":[{"name":"p1","enabled":true,"type":"redis","redis":{"address":["a"]}}]}`:                                                                              "presence_managers[0](p1).redis.address[0]: ",
	} {
		_, _, err := newSet(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s:\n\t%v\n\twant %q", text, err, want)
		}
	}
}

// TestLocal: a server with everything in memory is as fast as before.
func TestLocal(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true,
		`{"brokers":[{"name":"b1","enabled":true}],"presence_managers":[{"name":"p1","enabled":true}]}`: true,
		`{"brokers":[{"name":"b1","enabled":true,"type":"redis"}]}`:                                     false,
		`{"map_brokers":[{"name":"m1","enabled":true}],"channel":{"without_namespace":{` + aMap + `}}}`: true,
		`{"map_brokers":[{"name":"m1","enabled":true,"type":"redis"}]}`:                                 false,
		`{"engine":{"type":"redis"}}`: false,
	} {
		s, _, err := newSet(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if local := s.Broker.Describe().Local; local != want {
			t.Errorf("%s: local: %v", text, local)
		}
	}
}

// aMap are the options of maps.
const aMap = `"subscription_type":"map","map":{"mode":"persistent"}`

// TestMapAssignment: maps are on the brokers that their namespaces name, and stay there.
func TestMapAssignment(t *testing.T) {
	config := func(namespaces string) string {
		return `{"map_brokers":[{"name":"m1","enabled":true},{"name":"m2","enabled":true}],"channel":{"namespaces":[` + namespaces + `]}}`
	}
	ofMap := func(name, broker, mode string) string {
		return fmt.Sprintf(`{"name":%q,"subscription_type":"map","map":{"mode":%q,"key_ttl":%q,"broker_name":%q}}`,
			name, mode, map[string]string{"ephemeral": "1m", "persistent": "0s"}[mode], broker)
	}
	start := config(ofMap("n0", "", "persistent") + "," + ofMap("n1", "m1", "persistent") + "," + ofMap("n2", "m2", "ephemeral") + `,{"name":"n3"}`)
	s, _, err := newSet(t, start)
	if err != nil {
		t.Fatal(err)
	}
	r, err := routesOf(t, s, start, nil)
	if err != nil {
		t.Fatal(err)
	}
	for ch, want := range map[string]indexes{"n0:a": {0, 0}, "n1:a": {1, 0}, "n2:a": {2, 0}, "n3:a": {0, 0}, "a": {0, 0}} {
		if got := r.of(ch); got != want {
			t.Errorf("%s: %+v, want %+v", ch, got, want)
		}
		if got, want := r.hasStreamedMap(ch), ch == "n0:a" || ch == "n1:a"; got != want {
			t.Errorf("%s is a map with a stream: %t", ch, got)
		}
	}
	for namespaces, want := range map[string]string{
		ofMap("n1", "m2", "persistent"): "channel.namespaces[0](n1): broker_name, map.broker_name",
		ofMap("n1", "", "persistent"):   "channel.namespaces[0](n1): broker_name, map.broker_name",
		`{"name":"n1"}`:                 "channel.namespaces[0](n1): broker_name, map.broker_name",
		ofMap("n9", "m2", "persistent"): "",
		ofMap("n1", "m1", "persistent"): "",
	} {
		if _, err := routesOf(t, s, config(namespaces), r); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", namespaces, err, want)
		}
	}
}

// TestLateMaps: a reload cannot bring maps to a server that was started without their broker.
func TestLateMaps(t *testing.T) {
	s, _, err := newSet(t, `{"engine":{"type":"redis"}}`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = routesOf(t, s, `{"engine":{"type":"redis"},"channel":{"without_namespace":{`+aMap+`}}}`, nil)
	if err == nil || !strings.Contains(err.Error(), "channel.without_namespace.subscription_type: the server was started without") {
		t.Error(err)
	}
}

const several = `"brokers":[{"name":"b1","enabled":true},{"name":"off"},{"name":"b2","enabled":true}],
	"presence_managers":[{"name":"p1","enabled":true}]`

// on is a configuration with the namespaces of a test.
func on(namespaces string) string {
	return `{` + several + `,"channel":{"without_namespace":{"presence_manager_name":"p1"},"namespaces":[` + namespaces + `]}}`
}

func TestAssignment(t *testing.T) {
	start := on(`{"name":"n0"},{"name":"n1","broker_name":"b1"},{"name":"n2","broker_name":"b2","presence_manager_name":"p1"}`)
	s, inForce, err := newSet(t, start)
	if err != nil {
		t.Fatal(err)
	}
	next := func(text string) {
		t.Helper()
		r, err := routesOf(t, s, text, inForce.Load())
		if err != nil {
			t.Fatal(err)
		}
		inForce.Store(r)
	}
	check := func(want map[string]indexes) {
		t.Helper()
		got := map[string]indexes{}
		for ch := range want {
			got[ch] = inForce.Load().of(ch)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(indexes{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	next(start)
	check(map[string]indexes{
		"a": {0, 1}, "": {0, 1}, "n0:a": {0, 0}, "n1:a": {1, 0}, "$n1:a": {1, 0}, "n2:a:b": {2, 1}, "n3:a": {0, 0}, "n1": {0, 1},
	})
	// A new namespace has its engine, and one that is gone keeps it: who was subscribed
	// may still be, and has to be unsubscribed there.
	next(on(`{"name":"n3","broker_name":"b2"}`))
	check(map[string]indexes{"n3:a": {2, 0}, "a": {0, 1}, "n1:a": {1, 0}, "n2:a": {2, 1}})
	if n := testing.AllocsPerRun(100, func() { inForce.Load().of("n3:a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	for namespaces, want := range map[string]string{
		`{"name":"n3"}`:                    "channel.namespaces[0](n3): broker_name",
		`{"name":"n1","broker_name":"b2"}`: "channel.namespaces[0](n1): broker_name",
	} {
		if _, err := routesOf(t, s, on(namespaces), inForce.Load()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", namespaces, err)
		}
	}
}

// TestAssignmentOfOne: with one engine, names of channels may be read in another way.
func TestAssignmentOfOne(t *testing.T) {
	s, _, err := newSet(t, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	before, err := routesOf(t, s, `{}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := routesOf(t, s, `{"channel":{"namespace_boundary":"/","namespaces":[{"name":"nn"}]}}`, before); err != nil {
		t.Error(err)
	}
}

func BenchmarkRoute(b *testing.B) {
	c := config.DefaultConfig()
	c.Channel.Namespaces = []config.Namespace{{Name: "chat"}}
	resolver, err := channels.NewResolver(c.Channel, c.Client.UserPersonalChannel)
	if err != nil {
		b.Fatal(err)
	}
	r, err := new(Set).Assign(c, resolver, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.of("chat:index")
	}
}
