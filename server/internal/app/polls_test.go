package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/auth"
	"github.com/gyrohq/gyro/server/internal/config"
)

// polling adds a namespace whose keys the backend is asked for.
func polling(b *testBackend, edit func(*config.ChannelOptions)) func(*config.Config) {
	return proxied(b, func(cfg *config.Config) {
		cfg.Client.Proxy.Connect.Enabled = false
		cfg.SharedPoll.HMACSecretKey = "poll-secret"
		at := &cfg.Channel.Proxy.SharedPollRefresh
		at.Endpoint, at.Timeout = b.endpoint("SharedPollRefresh"), time.Minute
		addNamespace(cfg, "poll", func(o *config.ChannelOptions) {
			open(o)
			o.SubscriptionType, o.SharedPoll.Mode, o.SharedPoll.PublishEnabled = config.TypeSharedPoll, "versioned", true
			edit(o)
		})
	})
}

// trackKeys is a command of user u.
func trackKeys(signature string, keys string) string {
	return fmt.Sprintf(`"sub_refresh":{"channel":"poll:x","type":1,"track":[{"signature":%q,"items":[%s]}]}`, signature, keys)
}

// Over HTTP and gRPC: the backend is asked for keys, its values reach the clients, and what it says wrongly does not.
func TestSharedPollProxy(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startServerAt(t, "info", polling(b, func(o *config.ChannelOptions) { o.SharedPoll.MaxKeysPerConnection = 2 }))
		b.answer("SharedPollRefresh", `{"result":{"items":[{"key":"a","data":{"p":1},"version":3},{"key":"b","removed":true}]}}`)
		c := s.connect("u")
		if r := c.Subscribe("poll:x", `"type":4`); r.Type != 4 {
			t.Errorf("subscribed: %+v", r)
		}
		sign := func(user string, exp int64) string {
			return auth.SignTrack("poll-secret", user, "poll:x", []string{"a", "b"}, time.Now().Unix(), exp)
		}
		keys := `{"key":"a"},{"key":"b"}`
		for name, command := range map[string]string{
			"103": trackKeys(sign("other", 0), keys), "109": trackKeys(sign("u", 1000), keys), "106": trackKeys(sign("u", 0), keys+`,{"key":"c"}`),
		} {
			if code, _ := c.Outcome(command); code != "error "+name {
				t.Errorf("%s: %s", name, code)
			}
		}
		if r := c.Do(trackKeys(sign("u", time.Now().Unix()+100), keys)).SubRefresh; !r.Expires || r.TTL < 90 || r.TTL > 100 {
			t.Errorf("tracked: %+v", r)
		}
		if p := c.Pub(); p.Key != "a" || string(p.Data) != `{"p":1}` || p.Version != 3 {
			t.Errorf("got %+v", p)
		}
		if p := c.Pub(); p.Key != "b" || !p.Removed {
			t.Errorf("got %+v", p)
		}
		if got, want := b.last("SharedPollRefresh"), `{"channel":"poll:x","items":[{"key":"a"},{"key":"b"}]}`; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
		if status, answer := s.post("/api/shared_poll_publish", `{"channel":"poll:x","key":"a","version":4,"data":{"p":2}}`); status != 200 || answer != `{"result":{}}` {
			t.Errorf("published: %d %s", status, answer)
		}
		if p := c.Pub(); p.Key != "a" || p.Version != 4 {
			t.Errorf("got %+v", p)
		}
	})
}

// The server makes no subscriptions to such channels, whatever asks for one.
func TestSharedPollServerSide(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startServerAt(t, "info", polling(b, func(*config.ChannelOptions) {}))
		s.connect("u")
		if _, answer := s.post("/api/subscribe", `{"channel":"poll:x","user":"u"}`); answer != `{"error":{"code":107,"message":"bad request"}}` {
			t.Errorf("by the API: %s", answer)
		}
		c := s.dial(nil)
		if code, _ := c.Outcome(`"connect":{` + s.tokenField(map[string]any{"sub": "u", "channels": []string{"poll:x"}}) + `}`); code != fmt.Sprint("error ", protocol.ErrorBadRequest.Code) {
			t.Errorf("by a token: %s", code)
		}
	})
}
