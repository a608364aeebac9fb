package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func subscribeChecks() []check {
	const section, ends = "protocol-rules.md#subscribing", "protocol-rules.md#unsubscribing"
	return []check{
		{"subscribe.result", section, "the result tells positions that belong together", stream, func(t *trial) {
			r := t.Connect().Subscribe(t.Channel())
			t.Want(!r.Recoverable || r.Positioned, "the result is recoverable and not positioned")
			t.Want(!r.Positioned || r.Epoch != "", "the result is positioned and has no epoch")
			t.Want(r.Epoch != "_", "the epoch is _, by which clients say that they have none")
			t.Want(!r.Expires || r.TTL > 0, "the result has expires and no ttl")
			t.Want(!r.WasRecovering || t.has&caches != 0, "the result tells of a recovery that nobody asked for")
			t.Want(!r.Delta, "the result has delta, which nobody asked for")
			t.Want(r.ID == 0, "the result has a number, which nobody asked for")
		}},
		{"subscribe.twice", section, "a second subscribe to a channel is error 105", stream, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Subscribe(ch)
			c.Refused(t.Request(ch, nil), 105)
			c.Leave(ch)
			c.Subscribe(ch)
		}},
		{"subscribe.twice_at_once", section, "a second subscribe is error 105 also while the first is under way", stream, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			a, b := c.Numbered(t.Request(ch, nil)), c.Numbered(t.Request(ch, nil))
			c.Send(a, b)
			c.Succeeded(c.Reply(a.ID))
			r := c.Reply(b.ID)
			t.Want(r.Error != nil && r.Error.Code == 105, "the second is answered by error %s, expected 105", probe.Describe(r.Error))
		}},
		{"subscribe.no_channel", section, "a subscribe without a channel ends the connection with 3501", stream, func(t *trial) {
			c := t.Connect()
			c.Send(c.Numbered(&protocol.Command{Subscribe: &protocol.SubscribeRequest{}}))
			c.Ends(3501)
		}},
		{"subscribe.unknown_delta", section, "a kind of delta that does not exist ends the connection with 3501", stream, func(t *trial) {
			c := t.Connect()
			c.Send(c.Numbered(t.Request(t.Channel(), func(r *protocol.SubscribeRequest) { r.Delta = "unheard-of" })))
			c.Ends(3501)
		}},
		{"subscribe.other_type", section, "a stream cannot be subscribed to as a shared poll: error 108", stream, func(t *trial) {
			t.Connect().Refused(t.Request(t.Channel(), func(r *protocol.SubscribeRequest) { r.Type = 4 }), 108)
		}},
		{"subscribe.failure_leaves_nothing", section, "a subscribe that failed can be made again at once", stream, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Refused(t.Request(ch, func(r *protocol.SubscribeRequest) { r.Tf = &protocol.FilterNode{Op: "?"} }), 107)
			c.Subscribe(ch)
		}},
		{"subscribe.numbers", "protocol-rules.md#numbers-instead-of-names", "with a number in the result, publications have it in place of the name", stream | numbers | published, func(t *trial) {
			c, plain, ch := t.Connect(), t.Connect(), t.Channel()
			r := c.SubscribeWith(ch, func(r *protocol.SubscribeRequest) { r.Flag = 1 })
			t.Want(r.ID > 0, "the result has no number")
			plain.Subscribe(ch)
			t.Publish(c, ch, t.Data(1))
			p := c.Publication("by number")
			t.Want(p.ID == r.ID && p.Channel == "", "the push has number %d and name %q, expected %d alone", p.ID, p.Channel, r.ID)
			p = plain.Publication("by name")
			t.Want(p.ID == 0 && p.Channel == ch, "the push to who did not ask has number %d and name %q", p.ID, p.Channel)
		}},
		{"unsubscribe.unknown", ends, "an unsubscribe from a channel that is not subscribed to succeeds", 0, func(t *trial) {
			t.Connect().Leave(t.Channel())
		}},
		{"unsubscribe.no_channel", ends, "an unsubscribe without a channel ends the connection with 3501", 0, func(t *trial) {
			c := t.Connect()
			c.Send(c.Numbered(probe.Unsubscribe("")))
			c.Ends(3501)
		}},
		{"unsubscribe.ends_delivery", ends, "nothing of the channel comes after the reply, and no unsubscribe push", stream | published, func(t *trial) {
			c, other, ch := t.Connect(), t.Connect(), t.Channel()
			c.Subscribe(ch)
			other.Subscribe(ch)
			t.Publish(other, ch, t.Data(1))
			c.Publication("before the unsubscribe")
			c.Leave(ch)
			c.Pending = nil // it came before the reply
			t.Publish(other, ch, t.Data(2))
			other.Publication("1 at the other client")
			other.Publication("2 at the other client")
			c.Still("a push for the channel", func(r *protocol.Reply) bool { return r.Push != nil && r.Push.Channel == ch })
		}},
	}
}

var payloads = []string{
	`{}`, `[]`, `"text"`, `0`, `-0.0`, `1e400`, `12345678901234567890.000`, `null`, `true`, `{"a":{"b":[1,[2,{"c":null}]]}}`,
	`"\u0000\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, `"é😀ß\u2028"`, `{"a":1,"a":2}`, `{ "spaces" : [ 1 , 2 ] }`, `"<&>"`,
}

func publishChecks() []check {
	const section = "protocol-rules.md#publishing"
	return []check{
		{"publish.no_channel", section, "a publish without a channel ends the connection with 3501", stream | publishes, func(t *trial) {
			c := t.Connect()
			c.Send(c.Numbered(probe.Publish("", t.Data(1))))
			c.Ends(3501)
		}},
		{"publish.echo", section, "a subscribed publisher gets its publication too, with who published it", stream | publishes, func(t *trial) {
			c, other, ch := t.Connect(), t.Connect(), t.Channel()
			c.Subscribe(ch)
			other.Subscribe(ch)
			c.Publish(ch, t.Data(1))
			for _, to := range []*client{c, other} {
				p := to.Publication("of its own")
				t.Want(p.Channel == ch, "the push has the channel %q, expected %q", p.Channel, ch)
				t.Want(bytes.Equal(p.Pub.Data, t.Data(1)), "the data is %s, expected %s", p.Pub.Data, t.Data(1))
				t.Want(p.Pub.Info != nil && p.Pub.Info.Client == c.ID, "the info does not name the publisher %s", c.ID)
				t.Want(p.Pub.PrevData == nil && !p.Pub.Delta, "the publication has what is not for clients, or a delta")
			}
			c.Still("the publication a second time", probe.IsPub)
		}},
		{"publish.payloads", section, "payloads come as they were sent", stream | publishes, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Subscribe(ch)
			for _, data := range payloads {
				r := c.Call(probe.Publish(ch, []byte(data)))
				if r.Error != nil && r.Error.Code == 107 {
					t.Skip("the server refuses the payload %s", data)
				}
				c.Succeeded(r)
				p := c.Publication(data)
				t.Want(string(p.Pub.Data) == data, "%s has become %s", data, p.Pub.Data)
			}
		}},
		{"publish.bytes", section, "Protobuf connections carry payloads of any bytes", stream | publishes | inProtobuf, func(t *trial) {
			c, ch := t.Connect(), t.Channel()
			c.Subscribe(ch)
			data := []byte("\x00\xff\xfe\n\r\n\x80")
			r := c.Call(probe.Publish(ch, data))
			if r.Error != nil && r.Error.Code == 107 {
				t.Skip("the server takes no payload that is not JSON")
			}
			c.Succeeded(r)
			p := c.Publication("with bytes")
			t.Want(bytes.Equal(p.Pub.Data, data), "%q has become %q", data, p.Pub.Data)
		}},
	}
}

func deliveryChecks() []check {
	const section = "protocol-rules.md#delivery"
	return []check{
		{"delivery.order", section, "publications of a channel come in the order in which they were published, each once", stream | publishes, func(t *trial) {
			c, other, ch := t.Connect(), t.Connect(), t.Channel()
			c.Subscribe(ch) // others may not publish
			r := other.Subscribe(ch)
			var cmds []*protocol.Command
			for n := range 60 {
				cmds = append(cmds, c.Numbered(probe.Publish(ch, t.Data(n))))
			}
			c.Send(cmds...)
			for n := range cmds {
				p := other.Publication(fmt.Sprint("number ", n))
				t.Want(bytes.Equal(p.Pub.Data, t.Data(n)), "publication %d is %s, expected %s", n, p.Pub.Data, t.Data(n))
				if r.Positioned {
					t.Want(p.Pub.Offset == r.Offset+uint64(n)+1, "publication %d has the offset %d, expected %d", n, p.Pub.Offset, r.Offset+uint64(n)+1)
				}
			}
			for _, cmd := range cmds {
				c.Succeeded(c.Reply(cmd.ID))
			}
			other.Still("a publication more", probe.IsPub)
		}},
		{"delivery.after_reply", section, "no publication with an offset comes before the reply to subscribe", stream | publishes | positions, func(t *trial) {
			c, other := t.Connect(), t.Connect()
			for range 10 {
				ch := t.Channel()
				other.Subscribe(ch)
				first, then := other.Numbered(probe.Publish(ch, t.Data(1))), other.Numbered(probe.Publish(ch, t.Data(2)))
				other.Send(first, then)
				sub := c.Numbered(t.Request(ch, nil))
				c.Send(sub)
				at := position(c, ch, sub.ID)
				other.Succeeded(other.Reply(first.ID))
				other.Succeeded(other.Reply(then.ID))
				for ; at < 2; at++ {
					p := c.Publication("that the reply does not cover")
					t.Want(p.Pub.Offset == at+1, "offset %d follows %d", p.Pub.Offset, at)
				}
			}
			c.Still("a publication twice", probe.IsPub)
		}},
		{"delivery.channels", section, "publications come to the subscribers of their channel alone", stream | published, func(t *trial) {
			c, a, b := t.Connect(), t.Channel(), t.Channel()
			c.Subscribe(a)
			t.Publish(c, a, t.Data(1))
			c.Publication("of the channel")
			if t.has&publishes == 0 {
				t.Backend("publish", map[string]any{"channel": b, "data": probe.Raw(t.Data(2))})
			} else {
				other := t.Connect()
				other.Subscribe(b)
				other.Publish(b, t.Data(2))
			}
			c.Still("a publication of another channel", probe.IsPub)
		}},
	}
}

// position waits for the reply to a subscribe, before which nothing of the channel may come, and returns its offset.
func position(c *client, ch string, id uint32) uint64 {
	for {
		r, err := c.Next(c.Timeout)
		switch {
		case err != nil:
			c.Broke(err, "waiting for the reply to subscribe")
		case r.ID == id:
			c.Succeeded(r)
			c.Want(r.Subscribe != nil, "the reply to subscribe has no result")
			return r.Subscribe.Offset
		case probe.IsPub(r) && r.Push.Channel == ch && r.Push.Pub.Offset > 0:
			c.Fail("publication %d comes before the reply to subscribe", r.Push.Pub.Offset)
		}
	}
}

func presenceChecks() []check {
	const section, comings = "protocol-rules.md#presence", "protocol-rules.md#joins-and-leaves"
	ask := func(ch string) *protocol.Command {
		return &protocol.Command{Presence: &protocol.PresenceRequest{Channel: ch}}
	}
	count := func(ch string) *protocol.Command {
		return &protocol.Command{PresenceStats: &protocol.PresenceStatsRequest{Channel: ch}}
	}
	return []check{
		{"presence.who", section, "presence has each subscribed connection, under its id, until it unsubscribes", stream | presence, func(t *trial) {
			a, b, ch := t.Connect(), t.Connect(), t.Channel()
			a.Subscribe(ch)
			b.Subscribe(ch)
			who := a.OK(ask(ch)).Presence
			t.Want(who != nil && len(who.Presence) == 2, "there are two subscribers; presence has %d", len(who.Presence))
			for _, c := range []*client{a, b} {
				info := who.Presence[c.ID]
				t.Want(info != nil && info.Client == c.ID, "the entry of client %s is missing, or names another", c.ID)
			}
			b.Leave(ch)
			who = a.OK(ask(ch)).Presence
			t.Want(len(who.Presence) == 1 && who.Presence[a.ID] != nil, "presence does not have the one subscriber who is left alone")
		}},
		{"presence.stats", section, "presence_stats counts connections and users", stream | presence, func(t *trial) {
			a, b, ch := t.Connect(), t.Connect(), t.Channel()
			a.Subscribe(ch)
			r := a.Call(count(ch))
			if r.Error != nil {
				t.Skip("presence_stats is answered by error %s", probe.Describe(r.Error))
			}
			t.Want(r.PresenceStats != nil && r.PresenceStats.NumClients == 1 && r.PresenceStats.NumUsers == 1, "one client is subscribed; the stats are %+v", r.PresenceStats)
			b.Subscribe(ch)
			r = a.OK(count(ch))
			users := uint32(1)
			info := a.OK(ask(ch)).Presence.Presence
			if info[a.ID] != nil && info[b.ID] != nil && info[a.ID].User != info[b.ID].User {
				users = 2
			}
			t.Want(r.PresenceStats.NumClients == 2 && r.PresenceStats.NumUsers == users, "two clients of %d users are subscribed; the stats are %+v", users, r.PresenceStats)
		}},
		{"presence.disconnect", section, "presence loses a connection that ends", stream | presence, func(t *trial) {
			a, b, ch := t.Connect(), t.Connect(), t.Channel()
			a.Subscribe(ch)
			b.Subscribe(ch)
			b.Conn.Close()
			for deadline := time.Now().Add(t.Timeout); len(a.OK(ask(ch)).Presence.Presence) > 1; {
				t.Want(time.Now().Before(deadline), "presence still has a connection that ended %v ago", t.Timeout)
			}
		}},
		{"presence.no_channel", section, "presence without a channel ends the connection with 3501, if clients may ask at all", stream | presence, func(t *trial) {
			c := t.Connect()
			c.Send(c.Numbered(ask("")))
			c.Ends(3501)
		}},
		{"joins.others", comings, "subscribers get the joins and leaves of others, with who it is", stream | joins, func(t *trial) {
			a, b, ch := t.Connect(), t.Connect(), t.Channel()
			wants := func(r *protocol.SubscribeRequest) { r.JoinLeave = true }
			a.SubscribeWith(ch, wants)
			b.SubscribeWith(ch, wants)
			comes(a, ch, "join", b.ID)
			b.Leave(ch)
			comes(a, ch, "leave", b.ID)
			b.Still("the leave of the client itself", func(r *protocol.Reply) bool {
				return r.Push != nil && r.Push.Leave != nil && r.Push.Leave.Info != nil && r.Push.Leave.Info.Client == b.ID
			})
			b.SubscribeWith(ch, wants)
			comes(a, ch, "join", b.ID)
			b.Conn.Close()
			comes(a, ch, "leave", b.ID)
		}},
	}
}

// comes waits for the next join or leave, which must name a client. The client's own join may precede it.
func comes(c *client, ch, kind, id string) {
	for {
		p := c.Push("the "+kind+" of client "+id, func(p *protocol.Push) bool { return p.Join != nil || p.Leave != nil })
		var got string
		var info *protocol.ClientInfo
		if p.Join != nil {
			got, info = "join", p.Join.Info
		} else {
			got, info = "leave", p.Leave.Info
		}
		c.Want(info != nil, "a %s has no info", got)
		if got == "join" && info.Client == c.ID && id != c.ID {
			continue
		}
		c.Want(got == kind && info.Client == id && p.Channel == ch, "the %s of client %s comes, expected the %s of client %s", got, info.Client, kind, id)
		return
	}
}

func historyChecks() []check {
	const section = "protocol-rules.md#history"
	const needs = stream | keeps | published | positions
	row := func(name, rule string, run func(t *trial, h *testStream)) check {
		return check{"history." + name, section, rule, needs, func(t *trial) { run(t, t.fill(5)) }}
	}
	return []check{
		row("position", "without a limit, the result has the position alone", func(t *trial, h *testStream) {
			h.expect(protocol.HistoryRequest{})
			h.expect(protocol.HistoryRequest{Since: probe.Since(2, h.epoch)})
		}),
		row("forward", "without reverse, the oldest come first, at most limit", func(t *trial, h *testStream) {
			h.expect(protocol.HistoryRequest{Limit: 2}, 1, 2)
			h.expect(protocol.HistoryRequest{Limit: 5}, 1, 2, 3, 4, 5)
			h.expect(protocol.HistoryRequest{Limit: 100}, 1, 2, 3, 4, 5)
			h.expect(protocol.HistoryRequest{Limit: -1}, 1, 2, 3, 4, 5)
		}),
		row("since", "since is exclusive; pages by it have each publication once", func(t *trial, h *testStream) {
			h.expect(protocol.HistoryRequest{Limit: 2, Since: probe.Since(2, h.epoch)}, 3, 4)
			h.expect(protocol.HistoryRequest{Limit: 2, Since: probe.Since(4, h.epoch)}, 5)
			h.expect(protocol.HistoryRequest{Limit: -1, Since: probe.Since(0, h.epoch)}, 1, 2, 3, 4, 5)
			h.expect(protocol.HistoryRequest{Limit: 10, Since: probe.Since(5, h.epoch)})
			h.expect(protocol.HistoryRequest{Limit: 10, Since: probe.Since(50, h.epoch)})
		}),
		row("reverse", "with reverse, the newest come first", func(t *trial, h *testStream) {
			h.expect(protocol.HistoryRequest{Limit: 2, Reverse: true}, 5, 4)
			h.expect(protocol.HistoryRequest{Limit: -1, Reverse: true}, 5, 4, 3, 2, 1)
			h.expect(protocol.HistoryRequest{Limit: 2, Reverse: true, Since: probe.Since(4, h.epoch)}, 3, 2)
			h.expect(protocol.HistoryRequest{Limit: 9, Reverse: true, Since: probe.Since(1, h.epoch)})
		}),
		row("reverse_from_zero", "reverse from offset 0 is error 107", func(t *trial, h *testStream) {
			h.c.Refused(probe.History(protocol.HistoryRequest{Channel: h.channel, Limit: 1, Reverse: true, Since: probe.Since(0, h.epoch)}), 107)
		}),
		row("other_epoch", "another epoch is error 112, also without a limit; an empty one is not compared", func(t *trial, h *testStream) {
			h.c.Refused(probe.History(protocol.HistoryRequest{Channel: h.channel, Limit: 10, Since: probe.Since(1, "another")}), 112)
			h.c.Refused(probe.History(protocol.HistoryRequest{Channel: h.channel, Since: probe.Since(1, "another")}), 112)
			h.expect(protocol.HistoryRequest{Limit: 10, Since: probe.Since(3, "")}, 4, 5)
		}),
		row("no_channel", "history without a channel ends the connection with 3501", func(t *trial, h *testStream) {
			h.c.Send(h.c.Numbered(probe.History(protocol.HistoryRequest{Limit: 1})))
			h.c.Ends(3501)
		}),
	}
}

type testStream struct {
	c       *client
	channel string
	epoch   string
	top     uint64
}

// fill subscribes a client to a channel, and publishes n times. Publication n has offset n.
func (t *trial) fill(n int) *testStream {
	h := &testStream{c: t.Connect(), channel: t.Channel()}
	r := h.c.Subscribe(h.channel)
	t.Want(r.Offset == 0, "a channel that nobody has used is at offset %d", r.Offset)
	h.epoch = r.Epoch
	h.more(n)
	return h
}

func (h *testStream) more(n int) {
	for range n {
		h.top++
		h.c.Probe.Publish(h.c, h.channel, h.c.Data(int(h.top)))
		p := h.c.Publication(fmt.Sprint(h.top))
		h.c.Want(p.Pub.Offset == h.top, "a publication has the offset %d, expected %d", p.Pub.Offset, h.top)
	}
}

func (h *testStream) expect(r protocol.HistoryRequest, offsets ...uint64) {
	r.Channel = h.channel
	got := h.c.OK(probe.History(r)).History
	text, _ := json.Marshal(r) // a request has a form
	h.c.Want(got.Epoch == h.epoch && got.Offset == h.top, "history %s: the position is %d of %q, expected %d of %q", text, got.Offset, got.Epoch, h.top, h.epoch)
	h.c.Want(slices.Equal(offsetsOf(got.Publications), offsets), "history %s: the offsets are %v, expected %v", text, offsetsOf(got.Publications), offsets)
	h.check(got.Publications)
}

func (h *testStream) check(pubs []*protocol.Publication) {
	for _, p := range pubs {
		h.c.Want(bytes.Equal(p.Data, h.c.Data(int(p.Offset))), "publication %d has the data %s, expected %s", p.Offset, p.Data, h.c.Data(int(p.Offset)))
		h.c.Want(!p.Delta && p.PrevData == nil && p.Time == 0, "publication %d has what is not for clients", p.Offset)
		h.c.Want(p.Info == nil || p.Info.Client != "", "publication %d has an info without client", p.Offset)
	}
}

func offsetsOf(pubs []*protocol.Publication) []uint64 {
	var out []uint64
	for _, p := range pubs {
		out = append(out, p.Offset)
	}
	return out
}
