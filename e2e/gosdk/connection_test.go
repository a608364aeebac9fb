package gosdk

import (
	"errors"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/gyrohq/gyro/e2e/internal/rig"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

func connect(s sdk) {
	c := s.client(servers.Main.WS(), centrifuge.Config{})
	e := c.open()
	s.equal("client ID length", len(e.ClientID), 36)
	s.equal("version is told", e.Version != "", true)
}

func refusedTokens(s sdk) {
	for name, tok := range map[string]string{
		"wrong signature": rig.Token(object{"sub": "x"}) + "AA",
		"alg none":        "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ4In0.",
		"garbage":         "garbage",
		"subscription's":  rig.Token(object{"sub": "x", "channel": "room:x"}),
	} {
		c := s.client(servers.Main.WS(), centrifuge.Config{Token: tok})
		c.dial()
		s.equal(name, wait.Receive(s, "disconnected", c.disconnected), centrifuge.DisconnectedEvent{Code: 3500, Reason: "invalid token"})
	}
	c := s.client(servers.Main.WS(), centrifuge.Config{Token: rig.Token(object{"sub": "x", "exp": in(-time.Minute)})})
	c.dial()
	// The server answers with 109, and the SDK has no function to get another token.
	var missing centrifuge.ConfigurationError
	for !errors.As(wait.Receive(s, "error about the missing callback", c.errors), &missing) {
	}
	s.must(c.Disconnect())
}

func expiredToken(s sdk) {
	asked := make(chan struct{}, many)
	c := s.client(servers.Main.WS(), centrifuge.Config{
		Token: rig.Token(object{"sub": "x", "exp": in(-time.Minute)}),
		GetToken: func(centrifuge.ConnectionTokenEvent) (string, error) {
			asked <- struct{}{}
			return rig.Token(object{"sub": "x", "exp": in(time.Hour)}), nil
		},
	})
	c.open()
	s.equal("asked for tokens", len(asked), 1)
}

func refresh(s sdk) {
	asked := make(chan struct{}, many)
	c := s.connect(centrifuge.Config{GetToken: func(centrifuge.ConnectionTokenEvent) (string, error) {
		asked <- struct{}{}
		return rig.Token(object{"sub": "x", "exp": in(2 * time.Second)}), nil
	}})
	for range 3 { // the initial one and two refreshes
		wait.Receive(s, "request for a token", asked)
	}
	_, err := c.RPC(s.context(), "x", []byte(`{}`)) // still answered
	s.hasCode(err, 108)
	none(s, "reconnect", c.connecting)
}

func subRefresh(s sdk) {
	channel := unique("$room:")
	asked := make(chan struct{}, many)
	c := s.connect(centrifuge.Config{})
	sub := c.subscribe(channel, centrifuge.SubscriptionConfig{
		GetToken: func(centrifuge.SubscriptionTokenEvent) (string, error) {
			asked <- struct{}{}
			return rig.Token(object{"sub": c.user, "channel": channel, "exp": in(2 * time.Second)}), nil
		},
	})
	for range 3 {
		wait.Receive(s, "request for a token", asked)
	}
	s.publish(channel, 1)
	wait.Receive(s, "publication", sub.publications)
	none(s, "resubscribe", sub.subscribing)
}

// subExpired: the refresh hangs until the server ends the subscription (2501), the SDK subscribes with its old token, is
// told that it is expired (109), and gets another.
func subExpired(s sdk) {
	channel := unique("$room:")
	calls, expired := 0, make(chan struct{})
	c := s.connect(centrifuge.Config{})
	sub := c.subscribe(channel, centrifuge.SubscriptionConfig{
		GetToken: func(centrifuge.SubscriptionTokenEvent) (string, error) {
			calls++
			lifetime := time.Hour
			switch calls {
			case 1:
				lifetime = 2 * time.Second
			case 2:
				<-expired
				return "", errors.New("came too late")
			}
			return rig.Token(object{"sub": c.user, "channel": channel, "exp": in(lifetime)}), nil
		},
	})
	e := wait.Receive(s, "subscribing", sub.subscribing)
	s.equal("reason", e, centrifuge.SubscribingEvent{Code: 2501, Reason: "subscription expired"})
	close(expired)
	wait.Receive(s, "subscribed again", sub.subscribed)
	none(s, "reconnect", c.connecting)
}

func terminalDisconnect(s sdk) {
	c := s.connect(centrifuge.Config{})
	s.api("disconnect", object{"user": c.user})
	s.equal("event", wait.Receive(s, "disconnected", c.disconnected), centrifuge.DisconnectedEvent{Code: 3503, Reason: "force disconnect"})
	s.equal("state", c.State(), centrifuge.StateDisconnected)
	c.open()
	s.api("disconnect", object{"user": c.user, "disconnect": object{"code": 4777, "reason": "go away"}})
	s.equal("custom", wait.Receive(s, "disconnected", c.disconnected), centrifuge.DisconnectedEvent{Code: 4777, Reason: "go away"})
}

// pings stays connected over several pings, which a token refresh after them proves: without pongs the server would have
// closed the connection.
func pings(s sdk) {
	asked := make(chan struct{}, many)
	c := s.client(servers.Brisk.WS(), centrifuge.Config{
		MaxServerPingDelay: wait.Limit,
		GetToken: func(centrifuge.ConnectionTokenEvent) (string, error) {
			asked <- struct{}{}
			return rig.Token(object{"sub": "x", "exp": in(6 * time.Second)}), nil
		},
	})
	c.open()
	wait.Receive(s, "request for a token", asked)
	wait.Receive(s, "request for a fresh token", asked)
	none(s, "reconnect", c.connecting)
}

// silence stops all traffic without closing anything.
func silence(s sdk) {
	channel := unique("room:")
	proxy := s.proxy(servers.Brisk)
	watcher := s.client(servers.Brisk.WS(), centrifuge.Config{})
	watch := watcher.subscription(channel, centrifuge.SubscriptionConfig{JoinLeave: true})
	watcher.open()
	wait.Receive(s, "subscribed", watch.subscribed)
	wait.Receive(s, "own join", watch.joins)

	c := s.client(proxy.WS(), centrifuge.Config{MaxServerPingDelay: 500 * time.Millisecond})
	quiet := c.subscription(channel, centrifuge.SubscriptionConfig{})
	first := c.open().ClientID
	wait.Receive(s, "subscribed", quiet.subscribed)
	wait.Receive(s, "join", watch.joins)
	proxy.Mute()
	s.equal("the client misses pings", wait.Receive(s, "connecting", c.connecting).Code, 2)
	s.equal("the server misses pongs", wait.Receive(s, "leave", watch.leaves).Client, first)
	wait.Receive(s, "reconnected", c.connected)
	wait.Receive(s, "subscribed again", quiet.subscribed)
}

func rpc(s sdk) {
	c := s.client(servers.Library.WS(), centrifuge.Config{Data: []byte(`{"from":"connect"}`)})
	s.equal("data of the connect reply", string(c.open().Data), `{"from":"connect"}`)
	res, err := c.RPC(s.context(), "upper", []byte(`{"text":"hello"}`))
	s.must(err)
	s.equal("result", string(res.Data), `{"text":"HELLO"}`)
	_, err = c.RPC(s.context(), "push", []byte(`{"n":1}`))
	s.must(err)
	s.equal("message", string(wait.Receive(s, "message", c.messages)), `{"n":1}`)
	s.must(c.Send(s.context(), []byte(`{"n":2}`)))
	s.equal("echo", string(wait.Receive(s, "message", c.messages)), `{"n":2}`)
	_, err = c.RPC(s.context(), "fail", []byte(`{}`))
	s.hasCode(err, 1000)
	_, err = c.RPC(s.context(), "unknown", []byte(`{}`))
	s.hasCode(err, 104)
	go c.RPC(s.context(), "bye", []byte(`{}`)) // the connection ends instead of an answer
	s.equal("disconnect", wait.Receive(s, "disconnected", c.disconnected), centrifuge.DisconnectedEvent{Code: 4501, Reason: "bye"})
}
