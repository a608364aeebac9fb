package conformance

import (
	"bytes"
	"strings"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func tokenChecks() []check {
	const section = "protocol-rules.md#tokens"
	brief := func(t *trial) *client { // connected by a token that ends
		hi := t.Hi()
		hi.Connect.Token = t.ConnToken(time.Minute)
		c := t.ConnectBy(hi)
		if !c.Hello.Expires {
			t.Skip("the server does not ask the client to refresh its token")
		}
		t.Want(c.Hello.TTL > 0 && c.Hello.TTL <= 60, "a token of a minute has a ttl of %d s", c.Hello.TTL)
		return c
	}
	refresh := func(token string) *protocol.Command {
		return &protocol.Command{Refresh: &protocol.RefreshRequest{Token: token}}
	}
	return []check{
		{"tokens.invalid", section, "an invalid token ends the connection with 3500", signs, func(t *trial) {
			for _, token := range []string{"x", "a.b.c", t.ConnToken(0)[1:], t.ConnToken(0) + "x", strings.Repeat("x", 5000)} {
				hi := t.Hi()
				hi.Connect.Token = token
				t.Open(hi).Ends(3500)
			}
		}},
		{"tokens.expired", section, "a token that has expired is error 109", signs, func(t *trial) { t.expired() }},
		{"tokens.refresh", section, "refresh prolongs the connection", signs, func(t *trial) {
			c := brief(t)
			r := c.OK(refresh(t.ConnToken(time.Hour)))
			t.Want(r.Refresh != nil && r.Refresh.Expires && r.Refresh.TTL > 60 && r.Refresh.TTL <= 3600, "refresh by a token of an hour has the result %+v", r.Refresh)
			r = c.OK(refresh(t.ConnToken(0)))
			t.Want(r.Refresh != nil && !r.Refresh.Expires && r.Refresh.TTL == 0, "refresh by a token without end has the result %+v", r.Refresh)
		}},
		{"tokens.refresh_empty", section, "refresh without a token ends the connection with 3501", signs, func(t *trial) {
			c := brief(t)
			c.Send(c.Numbered(refresh("")))
			c.Ends(3501)
		}},
	}
}

func subscriptionTokenChecks() []check {
	const section = "protocol-rules.md#tokens"
	subRefresh := func(ch, token string) *protocol.Command {
		return &protocol.Command{SubRefresh: &protocol.SubRefreshRequest{Channel: ch, Token: token}}
	}
	withToken := func(token string) func(*protocol.SubscribeRequest) {
		return func(r *protocol.SubscribeRequest) { r.Token = token }
	}
	ending := func(t *trial) (*client, string) { // subscribed by a token that ends
		c, ch := t.Connect(), t.Channel()
		r := c.SubscribeWith(ch, withToken(t.SubToken(ch, time.Minute)))
		if !r.Expires {
			t.Skip("the server does not ask the client to refresh the token of its subscription")
		}
		t.Want(r.TTL > 0 && r.TTL <= 60, "a subscription token of a minute has a ttl of %d s", r.TTL)
		return c, ch
	}
	return []check{
		{"tokens.subscription_invalid", section, "a subscription token that is invalid is error 103", stream | signsSubs, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Refused(t.Request(ch, withToken("x")), 103)
			c.Refused(t.Request(ch, withToken(t.ConnToken(0))), 103)
			c.SubscribeWith(ch, withToken(t.SubToken(ch, 0)))
		}},
		{"tokens.subscription_other", section, "a subscription token for another channel ends the connection with 3500", stream | signsSubs, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Send(c.Numbered(t.Request(ch, withToken(t.SubToken(ch+"x", 0)))))
			c.Ends(3500)
		}},
		{"tokens.subscription_expired", section, "a subscription token that has expired is error 109", stream | signsSubs, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Refused(t.Request(ch, withToken(t.SubToken(ch, -time.Hour))), 109)
		}},
		{"tokens.sub_refresh", section, "sub_refresh prolongs the subscription", stream | signsSubs, func(t *trial) {
			c, ch := ending(t)
			r := c.OK(subRefresh(ch, t.SubToken(ch, time.Hour)))
			t.Want(r.SubRefresh != nil && r.SubRefresh.Expires && r.SubRefresh.TTL > 60 && r.SubRefresh.TTL <= 3600, "sub_refresh by a token of an hour has the result %+v", r.SubRefresh)
		}},
		{"tokens.sub_refresh_empty", section, "sub_refresh without a token is error 107", stream | signsSubs, func(t *trial) {
			c, ch := ending(t)
			c.Refused(subRefresh(ch, ""), 107)
		}},
		{"tokens.sub_refresh_unknown", section, "sub_refresh of a channel that is not subscribed to is error 103", 0, func(t *trial) {
			t.Connect().Refused(subRefresh(t.Channel(), "x"), 103)
		}},
		{"tokens.sub_refresh_no_channel", section, "sub_refresh without a channel ends the connection with 3501", 0, func(t *trial) {
			c := t.Connect()
			c.Send(c.Numbered(subRefresh("", "x")))
			c.Ends(3501)
		}},
	}
}

func serverChecks() []check {
	const section, closing = "protocol-rules.md#server-side-subscriptions", "protocol-rules.md#closing"
	of := func(c *client, more map[string]any) map[string]any {
		r := map[string]any{"user": c.User, "client": c.ID}
		for k, v := range more {
			r[k] = v
		}
		return r
	}
	unsubscribed := func(c *client, ch string) *protocol.Push {
		return c.Push("an unsubscribe push", func(p *protocol.Push) bool { return p.Unsubscribe != nil && p.Channel == ch })
	}
	return []check{
		{"server.unsubscribe", section, "when the server ends a subscription, an unsubscribe push has the code and the reason", stream | api | published, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Subscribe(ch)
			t.Backend("unsubscribe", of(c, map[string]any{"channel": ch}))
			p := unsubscribed(c, ch)
			t.Want(p.Unsubscribe.Code == 2000 && p.Unsubscribe.Reason == "server unsubscribe", "the push has the code %d and the reason %q", p.Unsubscribe.Code, p.Unsubscribe.Reason)
			t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(1))})
			c.Still("a publication of a subscription that ended", probe.IsPub)
			c.Subscribe(ch)
		}},
		{"server.subscribe", section, "a subscription that the server makes begins with a subscribe push", stream | api, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			t.Backend("subscribe", of(c, map[string]any{"channel": ch, "data": probe.Raw(t.Data(7))}))
			p := c.Push("a subscribe push", func(p *protocol.Push) bool { return p.Subscribe != nil && p.Channel == ch })
			t.Want(bytes.Equal(p.Subscribe.Data, t.Data(7)), "the push has the data %s, expected %s", p.Subscribe.Data, t.Data(7))
			t.Want(!p.Subscribe.Recoverable || p.Subscribe.Epoch != "", "the subscription is recoverable and has no epoch")
			t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(1))})
			got := c.Publication("of the subscription of the server")
			t.Want(got.Channel == ch && bytes.Equal(got.Pub.Data, t.Data(1)), "the publication is %s in %q", got.Pub.Data, got.Channel)
			c.Refused(t.Request(ch, nil), 105)
			t.Backend("unsubscribe", of(c, map[string]any{"channel": ch}))
			unsubscribed(c, ch)
			c.Subscribe(ch)
		}},
		{"server.publish", "protocol-rules.md#delivery", "a publication of the backend comes to all subscribers, without an info", stream | api, func(t *trial) {
			a, b, ch := t.Connect(), t.Connect(), t.Channel()
			a.Subscribe(ch)
			b.Subscribe(ch)
			t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(1)), "tags": map[string]string{"k": "v"}})
			for _, c := range []*client{a, b} {
				p := c.Publication("of the backend").Pub
				t.Want(bytes.Equal(p.Data, t.Data(1)) && p.Info == nil && p.Tags["k"] == "v" && len(p.Tags) == 1, "the publication has the data %s, tags %v, and an info: %t", p.Data, p.Tags, p.Info != nil)
			}
		}},
		{"server.history_remove", "protocol-rules.md#recovery", "a removed history keeps its position: who has all recovers, others do not", stream | api | recovers, func(t *trial) {
			h := t.fill(3)
			t.Backend("history_remove", map[string]any{"channel": h.channel})
			c := t.Connect()
			h.recovered(c, 3, h.epoch)
			h.lost(t.Connect(), 2, h.epoch)
			h.more(1)
			p := c.Publication("after the removal")
			t.Want(p.Pub.Offset == 4, "the next publication has the offset %d, expected 4", p.Pub.Offset)
		}},
		{"closing.code", closing, "a connection that the server closes is told the code and the reason, behind all that was for it", stream | api, func(t *trial) {
			for _, end := range []protocol.Disconnect{{Code: 4123, Reason: "again later"}, {Code: 4501, Reason: "over"}} {
				c, ch := t.Connect(), t.Channel()
				c.Subscribe(ch)
				t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(1))})
				t.Backend("disconnect", of(c, map[string]any{"disconnect": map[string]any{"code": end.Code, "reason": end.Reason}}))
				got := c.Ends(end.Code)
				t.Want(got.Reason == end.Reason, "the reason is %q, expected %q", got.Reason, end.Reason)
				publicationHere(c)
			}
		}},
		{"closing.default", closing, "a client that the backend disconnects without a code is closed with 3503", api, func(t *trial) {
			c := t.Connect()
			t.Backend("disconnect", of(c, nil))
			c.Ends(3503)
		}},
	}
}

func publicationHere(c *client) {
	for _, r := range c.Pending {
		if probe.IsPub(r) {
			return
		}
	}
	c.Fail("a publication from before the disconnect has not come")
}

func limitChecks() []check {
	const section = "protocol-rules.md#limits"
	return []check{
		{"limits.channel_name", section, "the name of a channel that is too long is error 107", stream, func(t *trial) {
			c := t.Connect()
			for size := 256; size <= 32<<10; size *= 4 {
				ch := t.Channel()
				r := c.Call(t.Request(ch+strings.Repeat("x", size-min(size, len(ch))), nil))
				if r.Error != nil {
					t.Want(r.Error.Code == 107, "a name of %d bytes is answered by error %s, expected 107", size, probe.Describe(r.Error))
					c.Alive()
					return
				}
			}
			t.Skip("the server takes names of 16 KiB")
		}},
		{"limits.channels", section, "a channel beyond the limit of a connection is error 106", stream, func(t *trial) {
			c := t.Connect()
			var first string
			for n := range 600 {
				ch := t.Channel()
				r := c.Call(t.Request(ch, nil))
				if r.Error == nil {
					if n == 0 {
						first = ch
					}
					continue
				}
				t.Want(r.Error.Code == 106, "channel %d of a connection is answered by error %s, expected 106", n+1, probe.Describe(r.Error))
				c.CheckError(r.Error)
				c.Leave(first)
				c.Subscribe(ch)
				return
			}
			t.Skip("the server takes 600 channels of a connection")
		}},
		{"limits.message", section, "a WebSocket message beyond the limit ends the connection with 1009", webSocket, func(t *trial) {
			for size := 64<<10 + 1; size <= 16<<20; size *= 4 {
				c := t.Connect()
				cmd := c.Numbered(probe.Unsubscribe(strings.Repeat("x", size)))
				c.Send(cmd)
				if _, err := c.Next(t.Timeout); err != nil {
					c.Ends(1009)
					return
				}
				c.Conn.Close()
			}
			t.Skip("the server takes messages of 4 MiB")
		}},
	}
}
