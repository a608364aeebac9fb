package app

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/config"
)

// TestAPISession: a command that addresses a session that nobody has does nothing, which
// is no error; the session ID, a secret, is not logged.
func TestAPISession(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "debug", nil)
	const session = "0b44c1f5-98d3-4e4a-9f1a-6d8b3f0a7c2e"
	s.secrets = append(s.secrets, session)
	c := s.connect("u")
	for _, method := range []string{"subscribe", "unsubscribe", "disconnect", "refresh"} {
		s.api(method, `{"user":"u","channel":"a","session":"`+session+`"}`)
	}
	s.api("subscribe", `{"user":"u","channel":"a","session":""}`)
	if p := c.Push(); p.Subscribe == nil || p.Channel != "a" {
		t.Errorf("got %+v", p)
	}
}

// TestAPIWhom: commands are for the connections of a user, which client and session narrow; without a user they are for
// anonymous ones. Codes that no client can get are refused, and the client stays.
func TestAPIWhom(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", func(c *config.Config) { c.Client.AllowAnonymousConnect = true })
	c := s.dial(nil)
	named := c.Connect(s.tokenField(jwt.MapClaims{"sub": "u"})).Client
	for _, code := range []string{`{}`, `{"code":5}`, `{"code":2999}`, `{"code":70000}`} {
		if status, answer := s.post("/api/disconnect", `{"user":"u","disconnect":`+code+`}`); status != http.StatusOK || !strings.Contains(answer, `"code":107`) {
			t.Errorf("%s: %d %s", code, status, answer)
		}
	}
	s.awaitLog("the code of a disconnect is from 3000 to 4999, not 5")
	anonymous := s.dial(nil)
	id := anonymous.Connect("").Client
	s.api("disconnect", `{"client":"`+named+`"}`)
	s.api("disconnect", `{"user":"u","client":"`+id+`"}`)
	s.api("disconnect", `{"client":"`+id+`"}`)
	if d := anonymous.Disconnected(); d.Code != 3503 {
		t.Errorf("disconnected with %v", d)
	}
	s.api("disconnect", `{"user":"u","disconnect":{"code":4500,"reason":"bye"}}`)
	if d := c.Disconnected(); d.Code != 4500 {
		t.Errorf("disconnected with %v", d)
	}
}

// TestAPISubscribe: a subscription that the server API makes has the options that the channel's namespace gives clients:
// presence maps, and the position of a full-state channel. It does not have the recovery mode that the namespace forces, and the
// request overrides options.
func TestAPISubscribe(t *testing.T) {
	t.Parallel()
	s := startServerAt(t, "info", func(c *config.Config) {
		keyed := func(kind, mode string, edit func(*options)) func(*options) {
			return func(o *options) {
				o.SubscriptionType, o.Map.Mode, o.Map.KeyTTL = kind, mode, time.Hour
				if edit != nil {
					edit(o)
				}
			}
		}
		addNamespace(c, "doc", func(o *options) { o.MapClientsPresence, o.MapUsersPresence = "clients:", "users:" })
		addNamespace(c, "clients", keyed(config.TypeMapClients, "ephemeral", nil))
		addNamespace(c, "users", keyed(config.TypeMapUsers, "ephemeral", nil))
		addNamespace(c, "scores", keyed(config.TypeMap, "recoverable", func(o *options) { o.Map.FullStatePrefix = "all:" }))
		addNamespace(c, "all", nil)
		addNamespace(c, "state", func(o *options) {
			o.HistorySize, o.HistoryTTL, o.ForceRecovery, o.ForceRecoveryMode, o.AutoCacheRecover = 1, time.Hour, true, "cache", true
		})
	})
	c := s.dial(nil)
	id := c.Connect(s.tokenField(jwt.MapClaims{"sub": "ann"})).Client
	subscribed := func(channel, more string) *protocol.Subscribe {
		s.api("subscribe", `{"user":"ann","channel":"`+channel+`"`+more+`}`)
		p := c.Push()
		for p.Pub != nil { // of a full-state channel
			p = c.Push()
		}
		if p.Subscribe == nil || p.Channel != channel {
			t.Fatalf("got %+v", p)
		}
		return p.Subscribe
	}
	subscribed("doc:7", "")
	for channel, key := range map[string]string{"clients:doc:7": id, "users:doc:7": "ann"} {
		wait.Until(t, key+" in "+channel, func() bool {
			return strings.Contains(s.api("map_read_state", `{"channel":"`+channel+`","limit":1}`), `"key":"`+key+`"`)
		})
	}
	s.api("map_publish", `{"channel":"scores:1","key":"k","data":1}`)
	if got := subscribed("all:scores:1", ""); !got.Recoverable || got.Epoch == "" {
		t.Errorf("the full-state channel has %+v", got)
	}
	s.api("publish", `{"channel":"state:1","data":1}`)
	if got := subscribed("state:1", ""); !got.Recoverable || got.Offset != 1 {
		t.Errorf("the stream has %+v", got)
	}
	if got := subscribed("state:2", `,"override":{"force_recovery":{"value":false}}`); got.Recoverable {
		t.Errorf("the overridden stream has %+v", got)
	}
}
