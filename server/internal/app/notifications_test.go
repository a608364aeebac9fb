package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/testkit/natstest"
)

// buses are the servers by which notifications come. Each says what nodes are configured with, and publishes messages.
var buses = map[string]func(t *testing.T) (on func(*config.Config), publish func(data string)){
	"redis": func(t *testing.T) (func(*config.Config), func(string)) {
		redis := redistest.Standalone(t, redistest.Options{})
		return func(cfg *config.Config) {
			onRedis(redis)(cfg)
			cfg.SharedPoll.Notification.Type = "redis"
			cfg.SharedPoll.Notification.Redis.Address = []string{redis.Addr()}
		}, func(data string) { redis.Do("PUBLISH", "shared_poll_notify", data) }
	},
	"nats": func(t *testing.T) (func(*config.Config), func(string)) {
		url := natstest.Start(t)
		conn := must(nats.Connect(url))
		t.Cleanup(conn.Close)
		return func(cfg *config.Config) {
			cfg.SharedPoll.Notification.Type, cfg.SharedPoll.Notification.NATS.URL = "nats", url
		}, func(data string) { _ = conn.Publish("shared_poll_notify", []byte(data)) }
	},
}

// tracker connects a client that tracks keys of channel poll:x, and returns it when it has the value of each.
func (s *testServer) tracker(keys ...string) *wstest.Client {
	s.t.Helper()
	c := s.connect("u")
	c.Subscribe("poll:x", `"type":4`)
	signature := auth.SignTrack("poll-secret", "u", "poll:x", keys, time.Now().Unix(), 0)
	c.Do(trackKeys(signature, `{"key":"`+strings.Join(keys, `"},{"key":"`)+`"}`))
	for range keys {
		c.Pub()
	}
	return c
}

// A notification has all nodes ask for the keys that their clients track, although the interval is an hour.
func TestSharedPollNotification(t *testing.T) {
	t.Parallel()
	for name, bus := range buses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestBackend(t)
			on, publish := bus(t)
			start := func() *testServer {
				edit := polling(b, func(o *config.ChannelOptions) { o.SharedPoll.RefreshInterval = time.Hour })
				return startServerAt(t, "info", func(cfg *config.Config) {
					edit(cfg)
					on(cfg)
					cfg.SharedPoll.Notification.Enabled, cfg.Prometheus.Enabled = true, true
				})
			}
			first, second := start(), start()
			b.answer("SharedPollRefresh", `{"result":{"items":[{"key":"a","data":1,"version":1},{"key":"b","data":1,"version":1}]}}`)
			list := []*wstest.Client{first.tracker("a", "b"), first.tracker("a"), second.tracker("a", "b")}
			asked := len(b.askedAbout("SharedPollRefresh"))
			b.answer("SharedPollRefresh", `{"result":{"items":[{"key":"a","data":2,"version":2}]}}`)
			publish(`{"items":[{"channel":"poll:x","key":"a"},{"channel":"poll:x","key":"c"},{"channel":"other","key":"a"}]}`)
			for i, c := range list {
				if p := c.Pub(); p.Key != "a" || p.Version != 2 || string(p.Data) != "2" {
					t.Errorf("client %d got %+v", i, p)
				}
			}
			question := `{"channel":"poll:x","items":[{"key":"a","version":1}]}`
			if got := b.askedAbout("SharedPollRefresh")[asked:]; !slices.Equal(got, []string{question, question}) {
				t.Errorf("asked %s", got)
			}
			publish(`nonsense`)
			for _, s := range []*testServer{first, second} {
				s.wantMetric(1, "gyro_shared_poll_notification_messages_total", "result=accepted")
				s.wantMetric(1, "gyro_shared_poll_notification_messages_total", "result=malformed")
				s.wantMetric(1, "gyro_shared_poll_notification_items_total", "result=tracked")
				s.wantMetric(2, "gyro_shared_poll_notification_items_total", "result=ignored")
				s.wantMetric(1, "gyro_shared_poll_notify_count", "channel_namespace=poll")
				s.awaitLog("a notification of shared poll keys is ignored")
			}
		})
	}
}

// A namespace says itself how keys gather, also after a reload.
func TestSharedPollGathering(t *testing.T) {
	t.Parallel()
	b := newTestBackend(t)
	s := startServerAt(t, "info", polling(b, func(o *config.ChannelOptions) { o.SharedPoll.RefreshInterval = time.Hour }))
	s.reload(polling(b, func(o *config.ChannelOptions) {
		o.SharedPoll.RefreshInterval, o.SharedPoll.Notification.BatchMaxSize, o.SharedPoll.Notification.BatchMaxDelay = time.Hour, 2, time.Minute
	}))
	b.answer("SharedPollRefresh", `{"result":{"items":[{"key":"a","data":1,"version":1},{"key":"b","data":1,"version":1}]}}`)
	c := s.tracker("a", "b")
	b.answer("SharedPollRefresh", `{"result":{"items":[{"key":"a","data":2,"version":2},{"key":"b","data":2,"version":2}]}}`)
	asked := len(b.askedAbout("SharedPollRefresh"))
	for _, key := range []string{"a", "b"} {
		if n := s.app.Node().Polls().Notify("poll:x", key); n != 1 {
			t.Errorf("%d keys are tracked", n)
		}
	}
	c.Pub()
	c.Pub()
	if got := b.askedAbout("SharedPollRefresh")[asked:]; len(got) != 1 {
		t.Errorf("asked %s", got)
	}
}

// A server whose notifications cannot come says why, and leaves nothing behind.
func TestStartWithoutNotifications(t *testing.T) {
	t.Parallel()
	a := must(New(testConfig(func(cfg *config.Config) {
		n := &cfg.SharedPoll.Notification
		n.Enabled, n.Type, n.NATS.URL = true, "nats", "nats://u:hush-hush@127.0.0.1:1"
	}), Options{Logger: discard}))
	err := a.Start(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "shared_poll.notification.nats.url: ") || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	cfg := testConfig(func(cfg *config.Config) {
		n := &cfg.SharedPoll.Notification
		n.Enabled, n.Type, n.Redis.Address = true, "redis", []string{"http://x"}
	})
	if err := Check(cfg); err == nil || !strings.Contains(err.Error(), "shared_poll.notification.redis.address[0]") {
		t.Errorf("check: %v", err)
	}
}
