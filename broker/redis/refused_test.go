package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/need"
)

// TestPublishRefused: Redis refuses a command of the script when others are done. The
// publication has not been then: nothing is left of it, the publisher hears of an error,
// and the same publication is delivered once when Redis lets it.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	for name, test := range map[string]struct {
		refuse []string
		lists  bool
		opts   broker.PublishOptions
	}{
		"PUBLISH":                {refuse: []string{"resetchannels"}, opts: keep},
		"PUBLISH, lists":         {refuse: []string{"resetchannels"}, opts: keep, lists: true},
		"PUBLISH, delta":         {refuse: []string{"resetchannels"}, opts: broker.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute, Delta: true}},
		"PUBLISH, no history":    {refuse: []string{"resetchannels"}},
		"XADD":                   {refuse: []string{"-xadd"}, opts: keep},
		"the result":             {refuse: []string{"resetkeys", "~*.stream.*"}, opts: keep},
		"the result, no history": {refuse: []string{"resetkeys", "%R~*"}},
	} {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, first %v", name, first), func(t *testing.T) {
				if test.refuse[len(test.refuse)-1] == "%R~*" && server.Do("COMMAND", "INFO", "SPUBLISH") == "" {
					t.Skip(need.Line("a redis-server that knows SPUBLISH", "set GYRO_REDIS_SERVER to a later version"))
				}
				publishRefused(t, server, test.refuse, test.lists, test.opts, first)
			})
		}
	}
}

func publishRefused(t *testing.T, server *redistest.Server, refuse []string, lists bool, opts broker.PublishOptions, first bool) {
	server.Do("FLUSHALL")
	allow := []string{"ACL", "SETUSER", "publisher", "reset", "on", ">secret", "~*", "&*", "+@all"}
	server.Do(allow...)
	all := redis.Config{Shards: []redis.Shard{standalone(server)}, HistoryUseLists: lists, Logger: quiet}
	n := newNote()
	reader := runBroker(t, all, n)
	if err := reader.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	some := all
	some.Shards = []redis.Shard{standalone(server)}
	some.Shards[0].User, some.Shards[0].Password = "publisher", "secret"
	b := runBroker(t, some, newNote())
	opts.IdempotencyKey = "key"
	kept := opts.HistorySize > 0
	var before uint64
	if !first {
		other := opts
		other.IdempotencyKey = ""
		if _, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("before"), Version: 1}, other); err != nil {
			t.Fatal(err)
		}
		receive(t, n.events)
		before = 1
	}
	publish := func() (broker.PublishResult, error) {
		return b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("one"), Version: 7}, opts)
	}
	server.Do(append([]string{"ACL", "SETUSER", "publisher"}, refuse...)...)
	for range 20 {
		if r, err := publish(); err == nil {
			t.Fatalf("accepted: %+v", r)
		}
	}
	if h, err := reader.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1}); kept && (err != nil || h.Top.Offset != before || uint64(len(h.Publications)) != before) {
		t.Errorf("after refusals: %+v, %v", h, err)
	}
	server.Do(allow...)
	r, err := publish()
	if err != nil || r.Suppressed != "" || kept && r.Position.Offset != before+1 {
		t.Fatalf("allowed: %+v, %v", r, err)
	}
	if again, err := publish(); err != nil || again.Suppressed != broker.SuppressIdempotency {
		t.Errorf("again: %+v, %v", again, err)
	}
	e := receive(t, n.events)
	if string(e.Pub.Data) != "one" || kept && e.Pub.Offset != before+1 || len(n.events) > 0 {
		t.Errorf("received %+v, and %d more", e.Pub, len(n.events))
	}
	if h, err := reader.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1}); kept && (err != nil || h.Top != r.Position || uint64(len(h.Publications)) != before+1) {
		t.Errorf("in the end: %+v, %v", h, err)
	}
	for _, key := range strings.Fields(server.Do("KEYS", "*")) {
		if server.Do("PTTL", key) == "-1" {
			t.Errorf("%s lives for ever", key)
		}
	}
}

// TestChannelsApart: no channel reaches what belongs to another.
func TestChannelsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	for _, lists := range []bool{false, true} {
		server.Do("FLUSHALL")
		b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, HistoryUseLists: lists}, newNote())
		channels := []string{"X", "meta.X", "meta.meta.X", "$X", "meta.$X", "", "meta.", "meta"}
		for i, ch := range channels {
			for range i + 1 {
				if err := publish(b, ch); err != nil {
					t.Fatalf("%q: %v", ch, err)
				}
			}
			// A subscriber, and a publisher of each channel of those so far.
			for k, other := range channels[:i+1] {
				h, err := b.History(t.Context(), other, broker.HistoryFilter{Limit: -1})
				if err != nil || h.Top.Offset != uint64(k+1) || len(h.Publications) != k+1 {
					t.Fatalf("%q behind the publications of %q: %+v, %v", other, ch, h, err)
				}
			}
		}
		for i, ch := range channels {
			if err := b.RemoveHistory(t.Context(), ch); err != nil {
				t.Fatal(err)
			}
			for k, other := range channels {
				h, err := b.History(t.Context(), other, broker.HistoryFilter{Limit: -1})
				if err != nil || h.Top.Offset != uint64(k+1) || (len(h.Publications) == 0) != (k <= i) {
					t.Errorf("%q when the history of %q is gone: %+v, %v", other, ch, h, err)
				}
			}
		}
		// Keys of one channel's publications are not those of another's.
		opts := keep
		for ch, key := range map[string]string{"a": "b.c", "a.b": "c"} {
			opts.IdempotencyKey = key
			if r, err := b.Publish(t.Context(), ch, &channel.Publication{}, opts); err != nil || r.Suppressed != "" {
				t.Errorf("key %q of %q: %+v, %v", key, ch, r, err)
			}
		}
	}
}

// TestKeysOfOthers: what is not of a type that Gyro writes there is not deleted.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, Logger: quiet}, newNote())
	server.Do("SET", "gyro.stream.ch", "precious")
	if err := publish(b, "ch"); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("publish: %v", err)
	}
	if _, err := b.History(t.Context(), "ch", broker.HistoryFilter{}); err != nil {
		t.Error(err)
	}
	if err := b.RemoveHistory(t.Context(), "ch"); err != nil {
		t.Error(err)
	}
	server.Do("SET", "gyro.stream.meta.other", "precious")
	channels := []string{"a", "other", "b"}
	for i, r := range b.Describe().Positions(t.Context(), channels, 0) {
		if taken := channels[i] == "other"; (r.Err != nil) != taken || taken && !strings.Contains(r.Err.Error(), "WRONGTYPE") || taken != (r.Top.Epoch == "") {
			t.Errorf("position of %q: %+v", channels[i], r)
		}
	}
	if got := server.Do("GET", "gyro.stream.ch"); got != "precious" {
		t.Errorf("the key holds %q", got)
	}
}
