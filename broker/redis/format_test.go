package redis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis"
	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

// note is an event handler that writes down, as much as has room.
type note struct {
	events chan broker.PublicationEvent
	joins  chan *channel.ClientInfo
	losses chan func(string) bool
}

func newNote() *note {
	return &note{make(chan broker.PublicationEvent, 1000), make(chan *channel.ClientInfo, 10), make(chan func(string) bool, 10)}
}

func (n *note) HandlePublication(_ string, e broker.PublicationEvent) { wait.Offer(n.events, e) }
func (n *note) HandleJoin(_ string, info *channel.ClientInfo)         { wait.Offer(n.joins, info) }
func (n *note) HandleLeave(_ string, info *channel.ClientInfo)        { wait.Offer(n.joins, info) }
func (n *note) HandleLoss(match func(string) bool)                    { wait.Offer(n.losses, match) }

// receive waits for an element.
func receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	return wait.Receive(t, "an event", from)
}

const dataOne = "\x22\x03one\x48\x05" // Data "one", Time 5

// TestKeys looks at what lies in Redis.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	for name, test := range map[string]struct {
		cfg     redis.Config
		history string
		entry   func(epoch string) string
	}{
		"stream": {redis.Config{}, "stream", func(string) string { return "1-0\nd\n" + dataOne }},
		"list":   {redis.Config{HistoryUseLists: true}, "list", func(epoch string) string { return "__p1:1:" + epoch + "__" + dataOne }},
	} {
		t.Run(name, func(t *testing.T) {
			server.Do("FLUSHALL")
			test.cfg.Shards = []redis.Shard{standalone(server)}
			test.cfg.PresenceUserMapping = true
			engine := newEngine(t, test.cfg)
			b := engine.Broker()
			if err := b.Run(newNote()); err != nil {
				t.Fatal(err)
			}
			defer b.Close(t.Context())
			result, err := b.Publish(t.Context(), "ch", &channel.Publication{Data: []byte("one"), Time: 5, Version: 0},
				broker.PublishOptions{HistorySize: 2, HistoryTTL: time.Minute, IdempotencyKey: "key"})
			if err != nil {
				t.Fatal(err)
			}
			info := &channel.ClientInfo{Client: "c", User: "u"}
			if err := engine.Presence().Add(t.Context(), "ch", info); err != nil {
				t.Fatal(err)
			}
			epoch := result.Position.Epoch
			keys := strings.Split(server.Do("KEYS", "*"), "\n")
			want := map[string]string{
				"gyro." + test.history + ".ch":      test.entry(epoch),
				"gyro." + test.history + ".meta.ch": "e\n" + epoch + "\ns\n1",
				"gyro.result.ch.key":                "e\n" + epoch + "\ns\n1",
				"gyro.presence.data.ch":             "c\n\x0a\x01u\x12\x01c",
				"gyro.presence.expire.ch":           "c",
				"gyro.presence.user.clients.ch":     "u\n1",
				"gyro.presence.user.expire.ch":      "u",
			}
			got := map[string]string{}
			for _, key := range keys {
				switch server.Do("TYPE", key) {
				case "hash":
					got[key] = server.Do("HGETALL", key)
				case "stream":
					got[key] = server.Do("XRANGE", key, "-", "+")
				case "list":
					got[key] = server.Do("LRANGE", key, "0", "-1")
				case "zset":
					got[key] = server.Do("ZRANGE", key, "0", "-1")
				}
				if ttl := server.Do("PTTL", key); ttl == "-1" {
					t.Errorf("%s lives for ever", key)
				}
				if strings.HasPrefix(key, "gyro.sample.") { // the node's own
					delete(got, key)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMessages reads what other nodes publish, and what a LIST of Centrifugo holds.
func TestMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	n := newNote()
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, HistoryUseLists: true}, n)
	if err := b.Subscribe(t.Context(), "ch"); err != nil {
		t.Fatal(err)
	}
	one := &channel.Publication{Data: []byte("one"), Time: 5}
	at := func(offset uint64) *channel.Publication { p := *one; p.Offset = offset; return &p }
	for message, want := range map[string]broker.PublicationEvent{
		dataOne:                                     {Pub: one},
		dataOne + "\x40\x01":                        {Pub: one, Delta: true},
		"__p1:7:abc__" + dataOne:                    {Pub: at(7), Epoch: "abc"},
		"__d1:7:abc:0::7:" + dataOne:                {Pub: at(7), Epoch: "abc", Delta: true},
		"__d1:7:abc:7:" + dataOne + ":7:" + dataOne: {Pub: at(7), Epoch: "abc", Delta: true, Prev: at(6)},
		"__d1:7:abc:19:__p1:6:abc__" + dataOne + ":7:" + dataOne: {Pub: at(7), Epoch: "abc", Delta: true, Prev: at(6)},
	} {
		server.Do("PUBLISH", "gyro.client.ch", "__broken")
		server.Do("PUBLISH", "gyro.client.ch", message)
		got := receive(t, n.events)
		got.Memory = nil // never freed
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", message, diff)
		}
	}
	server.Do("PUBLISH", "gyro.client.ch", "__j__\x0a\x01u\x12\x01c")
	if info := receive(t, n.joins); info.User != "u" || info.Client != "c" {
		t.Errorf("join of %+v", info)
	}

	server.Do("HSET", "gyro.list.meta.ch", "e", "new", "s", "2")
	server.Do("RPUSH", "gyro.list.ch", "__p1:2:new__"+dataOne, "__p1:1:new__"+dataOne, "__p1:9:old__"+dataOne)
	h, err := b.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1})
	want := broker.History{Publications: []*channel.Publication{at(1), at(2)}, Top: channel.StreamPosition{Offset: 2, Epoch: "new"}}
	if diff := cmp.Diff(want, h); diff != "" || err != nil {
		t.Errorf("history: %v (-want +got):\n%s", err, diff)
	}
}

// TestBigNumbers checks that versions and offsets are exact where doubles are not.
func TestBigNumbers(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}}, newNote())
	opts := broker.PublishOptions{HistorySize: 2, HistoryTTL: time.Minute}
	for i, version := range []uint64{1<<64 - 2, 1<<64 - 2, 1<<64 - 1, 1<<64 - 2} {
		result, err := b.Publish(t.Context(), "v", &channel.Publication{Version: version}, opts)
		if suppressed := i%2 == 1; err != nil || (result.Suppressed != "") != suppressed {
			t.Errorf("version %d: %+v, %v", version, result, err)
		}
	}
	server.Do("HSET", "gyro.stream.meta.o", "e", "abc", "s", "9007199254740990")
	result, err := b.Publish(t.Context(), "o", &channel.Publication{}, opts)
	if err != nil || result.Position.Offset != 9007199254740991 {
		t.Errorf("offset: %+v, %v", result, err)
	}
	h, err := b.History(t.Context(), "o", broker.HistoryFilter{Limit: -1})
	if err != nil || len(h.Publications) != 1 || h.Publications[0].Offset != result.Position.Offset || h.Top != result.Position {
		t.Errorf("history: %+v, %v", h, err)
	}
}

// TestEvictedMeta: what is left of a stream whose meta is gone belongs to no life.
func TestEvictedMeta(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	for _, lists := range []bool{false, true} {
		server.Do("FLUSHALL")
		kind := map[bool]string{false: "stream", true: "list"}[lists]
		b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}, HistoryUseLists: lists}, newNote())
		opts := broker.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute}
		for _, read := range []bool{false, true} {
			for range 3 {
				if _, err := b.Publish(t.Context(), "ch", &channel.Publication{}, opts); err != nil {
					t.Fatal(err)
				}
			}
			server.Do("DEL", "gyro."+kind+".meta.ch")
			want := 1
			if read {
				if h, err := b.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1}); err != nil || len(h.Publications) > 0 || h.Top.Offset != 0 {
					t.Fatalf("%s: history after the end: %+v, %v", kind, h, err)
				}
			}
			result, err := b.Publish(t.Context(), "ch", &channel.Publication{}, opts)
			if err != nil || result.Position.Offset != 1 {
				t.Fatalf("%s: publish into a new life: %+v, %v", kind, result, err)
			}
			if h, err := b.History(t.Context(), "ch", broker.HistoryFilter{Limit: -1}); err != nil || len(h.Publications) != want {
				t.Fatalf("%s: %d publications, %v", kind, len(h.Publications), err)
			}
			server.Do("FLUSHALL")
		}
	}
}

// TestEvictedMapMeta: entries of a map whose meta is gone belong to no life, also if a read made new meta.
func TestEvictedMapMeta(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	b := runBroker(t, redis.Config{Shards: []redis.Shard{standalone(server)}}, newNote())
	maps, opts := b.Describe().Maps, channel.MapOptions{StreamSize: 10, StreamTTL: time.Minute}
	set := func(key string) {
		if _, err := maps.Change(t.Context(), "m", &channel.Publication{Key: key}, opts); err != nil {
			t.Fatal(err)
		}
	}
	for _, changed := range []bool{false, true} {
		set("old")
		server.Do("DEL", "gyro.stream.meta.m")
		if h, err := b.History(t.Context(), "m", broker.HistoryFilter{}); err != nil || h.Top.Offset != 0 {
			t.Fatalf("%+v, %v", h, err)
		}
		want := 0
		if changed {
			set("new")
			want = 1
		}
		if st, err := maps.State(t.Context(), "m", channel.StateFilter{Limit: -1}); err != nil || len(st.Entries) != want || st.Top.Offset != uint64(want) {
			t.Errorf("changed %v: %+v, %v", changed, st, err)
		}
		server.Do("FLUSHALL")
	}
}
