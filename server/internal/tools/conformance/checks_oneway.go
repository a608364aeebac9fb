package conformance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func (t *trial) given(c *client, ch string) {
	t.Backend("subscribe", map[string]any{"user": t.User, "client": c.ID, "channel": ch})
	c.Push("a subscribe push", func(p *protocol.Push) bool { return p.Subscribe != nil && p.Channel == ch })
}

func oneWayChecks() []check {
	const section = probe.SectionOneWay
	return []check{
		{"oneway.connect", section, "the first message is a connect push, with a client and a session, and without pong and node", oneWay, func(t *trial) {
			a, b := t.Listen(), t.Listen()
			t.Want(a.ID != "" && a.ID != b.ID, "two connections have the clients %q and %q", a.ID, b.ID)
			t.Want(a.Hello.Session != "" && a.Hello.Session != b.Hello.Session, "a session is missing, or that of another connection")
			t.Want(!a.Hello.Pong && a.Hello.Node == "", "the push has pong or node, which are for clients that send")
		}},
		{"oneway.publications", section, "publications of a channel come each once, in order, with its name and as they were published", oneWay | api, func(t *trial) {
			c, ch := t.Listen(), t.Channel()
			t.given(c, ch)
			for n := range 30 {
				t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(n))})
			}
			for n := range 30 {
				p := c.Publication(fmt.Sprint(n + 1))
				t.Want(p.Channel == ch && p.ID == 0, "publication %d is of the channel %q and has the number %d, expected %q", n+1, p.Channel, p.ID, ch)
				t.Want(bytes.Equal(p.Pub.Data, t.Data(n)), "publication %d is %s, expected %s", n+1, p.Pub.Data, t.Data(n))
			}
			c.Quiet("something behind the last publication")
		}},
		{"oneway.unsubscribe", section, "a subscription ends with an unsubscribe push, behind which nothing of the channel comes", oneWay | api, func(t *trial) {
			c, ch := t.Listen(), t.Channel()
			t.given(c, ch)
			t.Backend("unsubscribe", map[string]any{"user": t.User, "client": c.ID, "channel": ch})
			p := c.Push("an unsubscribe push", func(p *protocol.Push) bool { return p.Unsubscribe != nil && p.Channel == ch })
			t.Want(p.Unsubscribe.Code == 2000, "the push has the code %d, expected 2000", p.Unsubscribe.Code)
			t.Backend("publish", map[string]any{"channel": ch, "data": probe.Raw(t.Data(1))})
			c.Quiet("a message of a subscription that ended")
		}},
		{"oneway.disconnect", section, "the last message is a disconnect push with code and reason, and a WebSocket is closed with both", oneWay | api, func(t *trial) {
			c := t.Listen()
			t.Backend("disconnect", map[string]any{"user": t.User, "client": c.ID, "disconnect": map[string]any{"code": 4321, "reason": "over"}})
			end := c.Ends(4321)
			t.Want(end.Reason == "over", "the reason is %q", end.Reason)
		}},
		{"oneway.token", section, "an invalid token is disconnect 3500, and nothing else comes", oneWay | signs, func(t *trial) {
			c := t.Ask(&protocol.ConnectRequest{Token: "x"})
			c.Ends(3500)
			t.Want(len(c.Pending) == 0, "something comes before the disconnect push")
		}},
		{"oneway.pings", section, "pings are empty pushes, come as announced, and need no answer", oneWay, func(t *trial) {
			c := t.Listen()
			interval := time.Duration(c.Hello.Ping) * time.Second
			if interval == 0 || 2*interval > t.patience {
				t.Skip("the server announces no pings, or too rare ones for --patience: every %v", interval)
			}
			for range 2 {
				ping(c, interval)
			}
		}},
	}
}

func wrappedChecks() []check {
	closes := func(t *trial) {
		c := t.Connect()
		t.Backend("disconnect", map[string]any{"user": t.User, "client": c.ID, "disconnect": map[string]any{"code": 4321, "reason": "over"}})
		end := c.Ends(4321)
		t.Want(end.Reason == "over", "the reason is %q", end.Reason)
	}
	large := func(t *trial) {
		c := t.Connect()
		want := bytes.Repeat([]byte("large "), 8000)
		cmd := probe.Publish(t.Channel(), fmt.Appendf(nil, "%q", want)) // it is refused or not, and answered
		r := c.Call(cmd)
		t.Want(r.Error != nil || r.Publish != nil, "a command of 48 KB has no answer")
		c.Alive()
	}
	return []check{
		{"webtransport.disconnect", "protocol-rules.md#webtransport", "the last message of the stream is a disconnect push", overQUIC | api, closes},
		{"webtransport.stream", "protocol-rules.md#webtransport", "messages are cut by line breaks or lengths alone, however the stream is", overQUIC, large},
		{"sockjs.close", "protocol-rules.md#sockjs", "a session is closed with code and reason", overSockJS | api, closes},
		{"sockjs.frames", "protocol-rules.md#sockjs", "texts are the frames of the protocol, of one command or several", overSockJS, func(t *trial) {
			large(t)
			c := t.Connect()
			a, b := c.Numbered(probe.Unsubscribe("a")), c.Numbered(probe.Unsubscribe("b"))
			c.Send(a, b)
			c.Succeeded(c.Reply(a.ID))
			c.Succeeded(c.Reply(b.ID))
		}},
	}
}
