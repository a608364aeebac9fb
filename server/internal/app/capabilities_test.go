package app

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/server/internal/config"
)

type object = map[string]any

func capability(match string, allow []string, channels ...string) object {
	return object{"channels": channels, "allow": allow, "match": match}
}

// outcomes of commands on a channel: what the client may do.
func outcomes(c *wstest.Client, ch string) string {
	var b strings.Builder
	for _, command := range []string{`"subscribe":{"channel":%q}`, `"publish":{"channel":%q,"data":{}}`, `"presence":{"channel":%q}`, `"presence_stats":{"channel":%q}`, `"history":{"channel":%q}`} {
		name, _, _ := strings.Cut(command[1:], `"`)
		if got, _ := c.Outcome(fmt.Sprintf(command, ch)); got == "ok" {
			fmt.Fprint(&b, name, " ")
		} else {
			fmt.Fprint(&b, strings.TrimPrefix(got, "error "), " ")
		}
	}
	return strings.TrimSpace(b.String())
}

// TestCapabilities: the claim caps gives what the namespace does not, by exact names, wildcards and expressions, and all
// that one of its objects gives.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		kept := func(o *config.ChannelOptions) {
			o.HistorySize, o.HistoryTTL, o.Presence, o.JoinLeave = 9, time.Hour, true, true
		}
		addNamespace(cfg, "room", kept)
		addNamespace(cfg, "off", func(*config.ChannelOptions) {})
	})
	c := s.dial(nil)
	c.Connect(s.tokenField(jwt.MapClaims{"sub": "42", "caps": []object{
		capability("", []string{"sub"}, "room:1", "$room:1", "off:1"), capability("", []string{"pub"}, "room:1"),
		capability("wildcard", []string{"sub", "hst"}, "room:a*"), capability("regex", []string{"prs"}, `^room:[\d]+$`), capability("", []string{"prs", "hst"}, "off:1"),
	}}))
	for ch, want := range map[string]string{
		"room:1":  "subscribe publish presence presence_stats 103",
		"room:ab": "subscribe 103 103 103 history",
		"room:7":  "103 103 presence presence_stats 103",
		"room:b":  "103 103 103 103 103",
		"$room:1": "103 103 103 103 103", // names with $ need a token
		"off:1":   "subscribe 103 108 108 108",
		"no:1":    "102 102 102 102 102",
	} {
		if got := outcomes(c, ch); got != want {
			t.Errorf("%s: %s, want %s", ch, got, want)
		}
	}
}

// TestRefreshedCapabilities: a refresh replaces the capabilities, and ends what only they granted.
func TestRefreshedCapabilities(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		cfg.Client.ExpiredCloseDelay = time.Minute
		kept := func(o *config.ChannelOptions) {
			o.HistorySize, o.HistoryTTL, o.Presence, o.JoinLeave = 9, time.Hour, true, true
		}
		addNamespace(cfg, "room", kept)
		addNamespace(cfg, "open", func(o *config.ChannelOptions) { kept(o); o.AllowSubscribeForClient = true })
	})
	token := func(caps ...object) string {
		return s.tokenField(jwt.MapClaims{"sub": "42", "exp": unix(time.Hour), "caps": caps})
	}
	all := []string{"sub", "pub", "prs", "hst"}
	c := s.dial(nil)
	c.Connect(token(capability("wildcard", all, "*")))
	for _, ch := range []string{"room:gone", "room:stays", "open:1"} {
		c.Do(fmt.Sprintf(`"subscribe":{"channel":%q}`, ch))
	}
	if res := c.Do(`"subscribe":{"channel":"room:kept","recoverable":true,"join_leave":true}`).Subscribe; !res.Recoverable {
		t.Errorf("%+v", res)
	}
	if push := c.Push(); push.Channel != "room:kept" || push.Join == nil {
		t.Errorf("%+v", push)
	}
	c.Do(`"refresh":{` + token(capability("", []string{"sub"}, "room:stays", "room:kept")) + `}`)
	ends := map[string]uint32{}
	for len(ends) < 2 {
		if push := c.Push(); push.Unsubscribe != nil {
			ends[push.Channel] = push.Unsubscribe.Code
		}
	}
	if fmt.Sprint(ends) != "map[room:gone:2000 room:kept:2502]" {
		t.Errorf("the refresh ended %v", ends)
	}
	if res := c.Do(`"subscribe":{"channel":"room:kept","recoverable":true,"join_leave":true}`).Subscribe; res.Recoverable {
		t.Errorf("%+v", res)
	}
	if got := outcomes(c, "room:stays"); got != "105 103 103 103 103" {
		t.Errorf("after the refresh: %s", got)
	}
	c.Do(`"refresh":{` + s.tokenField(jwt.MapClaims{"sub": "42", "exp": unix(time.Hour)}) + `}`) // no claim: no capabilities
	for range 2 {
		if push := c.Push(); push.Unsubscribe == nil || push.Unsubscribe.Code != 2000 {
			t.Errorf("%+v", push)
		}
	}
	if got := outcomes(c, "open:1"); got != "105 103 103 103 103" {
		t.Errorf("what the namespace grants: %s", got)
	}
}

// TestAllow: the claim allow of a subscription token gives rights until the end of the subscription, or until a refresh.
func TestAllow(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(cfg *config.Config) {
		addNamespace(cfg, "room", func(o *config.ChannelOptions) { o.HistorySize, o.HistoryTTL, o.Presence = 9, time.Hour, true })
	})
	token := func(allow ...string) string {
		return s.tokenField(jwt.MapClaims{"sub": "42", "channel": "room:1", "exp": unix(time.Hour), "allow": allow})
	}
	c := s.connect("42")
	if res := c.Do(`"subscribe":{"channel":"room:1","recoverable":true,` + token("hst", "pub") + `}`).Subscribe; !res.Recoverable {
		t.Errorf("%+v", res)
	}
	for _, step := range []struct{ do, want string }{
		{``, "105 publish 103 103 history"},
		{`"sub_refresh":{"channel":"room:1",` + token("prs") + `}`, "105 103 presence presence_stats 103"},
		{`"unsubscribe":{"channel":"room:1"}`, "103 103 103 103 103"},
	} {
		if step.do != "" {
			c.Do(step.do)
		}
		if got := outcomes(c, "room:1"); got != step.want {
			t.Errorf("after %s: %s, want %s", step.do, got, step.want)
		}
	}
}

// TestWrongCapabilities: tokens whose rights nobody can mean are refused, and the log says why.
func TestWrongCapabilities(t *testing.T) {
	t.Parallel()
	s := startServer(t, nil)
	for _, caps := range []any{
		"all", []object{capability("", []string{"everything"}, "a")}, []object{capability("glob", []string{"sub"}, "a")}, []object{capability("regex", []string{"sub"}, "(")},
	} {
		if got, _ := s.dial(nil).Outcome(`"connect":{` + s.tokenField(jwt.MapClaims{"sub": "42", "caps": caps}) + `}`); got != "disconnect 3500" {
			t.Errorf("%v: %s", caps, got)
		}
	}
	c := s.connect("42")
	if got, _ := c.Outcome(`"subscribe":{"channel":"a",` + s.tokenField(jwt.MapClaims{"sub": "42", "channel": "a", "allow": []string{"all"}}) + `}`); got != "error 103" {
		t.Errorf("allow: %s", got)
	}
}

// TestCapabilitiesOfBackend: the answers to connect and refresh have caps, the answer to subscribe has allow. A client may
// publish by capability without a question to the backend.
func TestCapabilitiesOfBackend(t *testing.T) {
	t.Parallel()
	carriers(t, func(t *testing.T, b *testBackend) {
		s := startProxied(t, b, func(cfg *config.Config) {
			o := &cfg.Channel.WithoutNamespace
			o.JoinLeave, o.AllowPresenceForSubscriber, o.AllowHistoryForSubscriber = true, false, false
			cfg.Client.Proxy.Refresh.Enabled = true
			cfg.Client.PresenceInterval, cfg.Client.ExpiredCloseDelay = 100*time.Millisecond, time.Millisecond
		})
		b.answer("Connect", fmt.Sprintf(`{"result":{"user":"42","expire_at":%d,"caps":[{"channels":["free*"],"match":"wildcard","allow":["sub","pub"]}]}}`, unix(2*time.Second)))
		b.answer("Subscribe", `{"result":{"allow":["hst","prs"]}}`)
		b.answer("Refresh", `{"result":{"expire_at":9999999999,"caps":[{"channels":["free1"],"allow":["sub"]}]}}`)
		c := s.dial(nil)
		c.Connect("")
		c.Do(`"subscribe":{"channel":"free1"}`)
		c.Do(`"subscribe":{"channel":"free2"}`)
		c.Do(`"publish":{"channel":"free2","data":{}}`)
		if push := c.Push(); push.Pub == nil || push.Channel != "free2" {
			t.Errorf("%+v", push)
		}
		if asked := append(b.askedAbout("Publish"), b.askedAbout("Subscribe")...); len(asked) > 0 {
			t.Errorf("the backend was asked about %v", asked)
		}
		if res := c.Do(`"subscribe":{"channel":"asked","recoverable":true,"join_leave":true}`).Subscribe; !res.Recoverable {
			t.Errorf("%+v", res)
		}
		if push := c.Push(); push.Join == nil {
			t.Errorf("%+v", push)
		}
		c.Do(`"history":{"channel":"asked"}`)
		c.Do(`"presence":{"channel":"asked"}`)
		for {
			if push := c.Push(); push.Unsubscribe != nil {
				if push.Channel != "free2" || push.Unsubscribe.Code != 2000 {
					t.Errorf("%+v", push)
				}
				break
			}
		}
		b.answer("Subscribe", `{"result":{"allow":["all"]}}`)
		if got, _ := c.Outcome(`"subscribe":{"channel":"wrong"}`); got != "error 100" {
			t.Errorf("an answer with an unknown right: %s", got)
		}
		b.answer("Connect", `{"result":{"caps":[{"channels":["("],"match":"regex","allow":["sub"]}]}}`)
		if got, _ := s.dial(nil).Outcome(`"connect":{}`); got != "disconnect 3004" {
			t.Errorf("an answer with a wrong expression: %s", got)
		}
	})
}
