package engine

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/server/config"
	"github.com/gyrohq/gyro/server/namespace"
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

func newSet(t *testing.T, text string) (*Set, *namespace.Resolver, error) {
	t.Helper()
	c := load(t, text)
	channels, err := namespace.NewResolver(c.Channel)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(c, channels, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return s, channels, err
}

func TestDescribe(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "[engine memory]",
		`{"engine":{"type":"redis"}}`: "[engine redis standalone]",
		`{"broker":{"enabled":true}}`: "[engine memory broker memory]",
		`{"engine":{"type":"x"},"broker":{"enabled":true},"presence_manager":{"enabled":true}}`:                                                                    "[broker memory presence_manager memory]",
		`{"engine":{"type":"redis","redis":{"address":["a:1","redis+sentinel://b:1?sentinel_master_name=m","redis+sentinel://c:1?sentinel_master_name=m"]}}}`:      "[engine redis sharded(3):standalone,sentinel-x2]",
		`{"engine":{"type":"redis","redis":{"address":["a:1","unix:///r.sock"]}}}`:                                                                                 "[engine redis sharded(2):standalone-x2]",
		`{"engine":{"type":"redis","redis":{"address":["a:1"],"sentinel_address":["b:1,c:1"],"sentinel_master_name":"m"}}}`:                                        "[engine redis sentinel]",
		`{"engine":{"type":"redis","redis":{"sentinel_address":["b:1"],"cluster_address":["c:1,d:1"]}}}`:                                                           "[engine redis cluster]",
		`{"broker":{"enabled":true,"type":"nats"},"presence_manager":{"enabled":true,"type":"redis"}}`:                                                             "[broker nats presence_manager redis standalone]",
		`{"brokers":[{"name":"b1","enabled":true,"type":"redis"},{"name":"b2","type":"redis"}],"presence_managers":[{"name":"p1","enabled":true,"type":"redis"}]}`: "[engine memory brokers[0](b1) redis standalone presence_managers[0](p1) redis standalone]",
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
		`{"brokers":[{"name":"b1","enabled":true,"type":"redis","redis":{"address":["a"]}}]}`:           "brokers[0](b1).redis.address[0]: ",
		`{"presence_managers":[{"name":"p1","enabled":true,"type":"redis","redis":{"address":["a"]}}]}`: "presence_managers[0](p1).redis.address[0]: ",
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
		`{"engine":{"type":"redis"}}`: false,
	} {
		s, _, err := newSet(t, text)
		if err != nil {
			t.Fatal(err)
		}
		if _, local := s.Broker.(broker.Local); local != want {
			t.Errorf("%s: local: %v", text, local)
		}
	}
}

const several = `"brokers":[{"name":"b1","enabled":true},{"name":"off"},{"name":"b2","enabled":true}],
	"presence_managers":[{"name":"p1","enabled":true}]`

func TestRoutes(t *testing.T) {
	s, channels, err := newSet(t, `{`+several+`,"channel":{"without_namespace":{"presence_manager_name":"p1"},
		"namespaces":[{"name":"n0"},{"name":"n1","broker_name":"b1"},{"name":"n2","broker_name":"b2","presence_manager_name":"p1"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want map[string]place) {
		t.Helper()
		got := map[string]place{}
		for ch := range want {
			got[ch] = place{s.routes.broker(ch), s.routes.presence(ch)}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(place{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check(map[string]place{
		"a": {0, 1}, "": {0, 1}, "n0:a": {0, 0}, "n1:a": {1, 0}, "$n1:a": {1, 0}, "n2:a:b": {2, 1}, "n3:a": {0, 0}, "n1": {0, 1},
	})
	// A new namespace finds its engine from the moment on that it is known.
	next := load(t, `{`+several+`,"channel":{"without_namespace":{"presence_manager_name":"p1"},
		"namespaces":[{"name":"n3","broker_name":"b2"}]}}`)
	undo, err := s.Reload(next)
	if err != nil {
		t.Fatal(err)
	}
	check(map[string]place{"n3:a": {0, 0}})
	if err := channels.Reload(next.Channel); err != nil {
		t.Fatal(err)
	}
	check(map[string]place{"n3:a": {2, 0}, "a": {0, 1}})
	undo()
	check(map[string]place{"n3:a": {0, 0}})
	if n := testing.AllocsPerRun(100, func() { s.routes.broker("n3:a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	// One that is gone keeps its engines: who was subscribed may still be.
	_, err = s.Reload(load(t, `{`+several+`,"channel":{"without_namespace":{"presence_manager_name":"p1"},
		"namespaces":[{"name":"n1","broker_name":"b2"}]}}`))
	if err == nil || !strings.Contains(err.Error(), "channel.namespaces[0](n1): broker_name") {
		t.Errorf("%v", err)
	}
}

// TestReloadOfOne: a server with one engine takes any names of channels, but no
// engines that it was not started with.
func TestReloadOfOne(t *testing.T) {
	s, _, err := newSet(t, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reload(load(t, `{"channel":{"namespace_boundary":"/","namespaces":[{"name":"nn"}]}}`)); err != nil {
		t.Error(err)
	}
	_, err = s.Reload(load(t, `{`+several+`,"channel":{"namespaces":[{"name":"nn","broker_name":"b1"}]}}`))
	if err == nil || !strings.Contains(err.Error(), "channel.namespaces[0](nn): broker_name") {
		t.Errorf("%v", err)
	}
}

func BenchmarkRoute(b *testing.B) {
	c := config.DefaultConfig()
	c.Channel.Namespaces = []config.Namespace{{Name: "chat"}}
	channels, err := namespace.NewResolver(c.Channel)
	if err != nil {
		b.Fatal(err)
	}
	r := newRoutes(c, channels, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		r.broker("chat:index")
	}
}
