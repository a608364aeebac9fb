package channels

import (
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/config"
)

// A subscription gets what saves messages and bytes from its channel's namespace.
func TestSavings(t *testing.T) {
	var cfg config.Channel
	cfg.NamespaceBoundary = ":"
	ns := config.Namespace{Name: "ns"}
	ns.AllowChannelCompaction, ns.ClientPublishDebounce, ns.BatchMaxSize, ns.BatchFlushLatest = true, time.Second, 7, true
	cfg.Namespaces = []config.Namespace{ns, {Name: "plain"}}
	resolver, err := NewResolver(cfg, config.PersonalChannel{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]gyro.SubscribeOptions{
		"ns:a":    {AllowCompaction: true, PublishDebounce: time.Second, BatchFlushLatest: true},
		"plain:a": {},
	} {
		ch, ok := resolver.Resolve(name)
		if !ok {
			t.Fatalf("%s is unknown", name)
		}
		o := Subscription(ch, SourceConnectToken)
		if o.AllowCompaction != want.AllowCompaction || o.PublishDebounce != want.PublishDebounce || o.BatchFlushLatest != want.BatchFlushLatest {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// A subscription gets the batching window of its channel's namespace.
func TestBatchOptions(t *testing.T) {
	var cfg config.Channel
	cfg.NamespaceBoundary = ":"
	cfg.WithoutNamespace.BatchMaxSize = 3
	ns := config.Namespace{Name: "ns"}
	ns.BatchMaxDelay, ns.BatchMaxSize = 5*time.Millisecond, 7
	cfg.Namespaces = []config.Namespace{ns, {Name: "plain"}}
	resolver, err := NewResolver(cfg, config.PersonalChannel{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		delay time.Duration
		size  int
	}{
		"a": {0, 3}, "ns:a": {5 * time.Millisecond, 7}, "plain:a": {0, 0},
	} {
		ch, ok := resolver.Resolve(name)
		if !ok {
			t.Fatalf("%s is unknown", name)
		}
		o := Subscription(ch, SourceConnectToken)
		if o.BatchMaxDelay != want.delay || o.BatchMaxSize != want.size {
			t.Errorf("%s: window of %v and %d, want %+v", name, o.BatchMaxDelay, o.BatchMaxSize, want)
		}
	}
}

// Changes of clients have a bound, unless each user has one key. Changes of the backend have none.
func TestBoundForClients(t *testing.T) {
	for _, tt := range []struct {
		key              string
		configured, want int
	}{
		{"", 0, 10_000}, {"client_id", 0, 10_000}, {"user_id", 0, 0}, {"", 5, 5}, {"user_id", 5, 5}, {"", -1, 0}, {"client_id", -1, 0},
	} {
		var of Options
		of.Map.Mode, of.Map.ClientKey, of.Map.ClientMaxEntries = "persistent", tt.key, tt.configured
		if o, err := ClientMapChange(&of); err != nil || o.MaxEntries != tt.want || o.StreamSize != defaultStreamSize {
			t.Errorf("%+v: %+v, %v", tt, o, err)
		}
		if o, err := MapChange(&of); err != nil || o.MaxEntries != 0 {
			t.Errorf("the backend: %+v, %v", o, err)
		}
	}
	if _, err := ClientMapChange(new(Options)); err == nil {
		t.Error("no map has options")
	}
}
