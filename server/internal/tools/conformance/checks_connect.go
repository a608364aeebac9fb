package conformance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/probe"
)

func connectChecks() []check {
	const section = "protocol-rules.md#connecting"
	return []check{
		{"connect.reply", section, "the first message is the reply to connect, with the client's id", 0, func(t *trial) {
			c := t.Open(t.Hi())
			c.Expects[1] = true
			r := c.Await("a reply", t.Timeout, func(*protocol.Reply) bool { return true })
			t.Want(r.ID == 1 && r.Connect != nil, "the first message is not the result of connect")
			t.Want(r.Connect.Client != "", "the result has no client")
			t.Want(!r.Connect.Expires || r.Connect.TTL > 0, "the result has expires and no ttl")
			t.Want(r.Connect.Pong == (r.Connect.Ping > 0) || !r.Connect.Pong, "the result asks for pongs, and announces no pings")
			stream := t.Dialer.Kind.Emulated()
			t.Want((r.Connect.Session != "") == stream && (r.Connect.Node != "") == stream, "session and node are for emulated transports, and for all of them")
		}},
		{"connect.ids", section, "each connection has an id of its own", 0, func(t *trial) {
			a, b := t.Connect(), t.Connect()
			t.Want(a.ID != b.ID, "two connections have the id %q", a.ID)
			t.Want(a.Hello.Session == "" || a.Hello.Session != b.Hello.Session, "two connections have one session")
		}},
		{"connect.twice", section, "a second connect ends the connection with 3501", 0, func(t *trial) {
			c := t.Connect()
			c.Conn.Send(t.Frame(&protocol.Command{ID: 2, Connect: &protocol.ConnectRequest{Token: t.ConnToken(0)}}))
			c.Ends(3501)
		}},
		{"connect.first", section, "before connect, any other command ends the connection with 3501", 0, func(t *trial) {
			for _, cmd := range []*protocol.Command{
				{ID: 1, Subscribe: &protocol.SubscribeRequest{Channel: t.Channel()}}, {ID: 1, Publish: &protocol.PublishRequest{Channel: t.Channel(), Data: t.Data(1)}},
				{ID: 1, Unsubscribe: &protocol.UnsubscribeRequest{Channel: t.Channel()}}, {ID: 1, RPC: &protocol.RPCRequest{Method: "m"}},
				{ID: 1, Refresh: &protocol.RefreshRequest{Token: "t"}}, {Send: &protocol.SendRequest{Data: t.Data(1)}}, {},
			} {
				t.Open(cmd).Ends(3501)
			}
		}},
		{"connect.without_id", section, "a connect without an id ends the connection with 3501", 0, func(t *trial) {
			hi := t.Hi()
			hi.ID = 0
			t.Open(hi).Ends(3501)
		}},
		{"connect.pipelined", section, "commands behind connect in its frame are done after it, and its reply is the first", stream, func(t *trial) {
			ch, other := t.Channel(), t.Channel()
			c := t.Open(t.Hi(), probe.WithID(2, t.Request(ch, nil)), probe.WithID(3, t.Request(other, nil)), probe.WithID(4, probe.Unsubscribe(ch)))
			for id := range uint32(4) {
				c.Expects[id+1] = true
			}
			first := c.Await("a reply", t.Timeout, func(*protocol.Reply) bool { return true })
			t.Want(first.ID == 1, "the reply to command %d comes before that to connect", first.ID)
			for id := range uint32(3) {
				r := c.Reply(id + 2)
				t.Want(r.Error == nil, "command %d is answered by error %s", id+2, probe.Describe(r.Error))
			}
		}},
		{"connect.error_ends_frame", section, "after an error to connect, the rest of its frame is dropped without replies", signs, func(t *trial) {
			c := t.expired(probe.WithID(2, probe.Unsubscribe(t.Channel())))
			c.Expects[2] = true
			if r, err := c.Next(5 * t.Moment); err == nil {
				t.Fail("a reply to command %d comes behind the error", r.ID)
			}
		}},
		{"connect.again", section, "a client that was closed for a bad request can connect anew", 0, func(t *trial) {
			c := t.Connect()
			c.Conn.Send(t.Frame(&protocol.Command{ID: 2, Connect: &protocol.ConnectRequest{}}))
			c.Ends(3501)
			t.Connect().Alive()
		}},
	}
}

func (t *trial) expired(more ...*protocol.Command) *client {
	hi := t.Hi()
	hi.Connect.Token = t.ConnToken(-time.Hour)
	c := t.Open(append([]*protocol.Command{hi}, more...)...)
	c.Expects[1] = true
	r := c.Reply(1)
	t.Want(r.Error != nil, "a token that has expired is accepted")
	t.Want(r.Error.Code == 109, "error %s, expected 109", probe.Describe(r.Error))
	c.CheckError(r.Error)
	return c
}

var malformed = []struct {
	name, rule, frame string
	needs             need
}{
	{"empty", "an empty frame ends the connection with 3501", "", webSocket},
	{"json.text", "a frame that is not JSON ends the connection with 3501", "hello", inJSON},
	{"json.cut", "JSON that is cut off ends the connection with 3501", `{"id":2,"unsubscribe":{"channel":"c"}`, inJSON},
	{"json.array", "a command that is not an object ends the connection with 3501", `[{"id":2}]`, inJSON},
	{"json.id_text", "an id that is a string ends the connection with 3501", `{"id":"2","unsubscribe":{"channel":"c"}}`, inJSON},
	{"json.id_fraction", "an id that is a fraction ends the connection with 3501", `{"id":2.5,"unsubscribe":{"channel":"c"}}`, inJSON},
	{"json.id_range", "an id of more than 32 bits ends the connection with 3501", `{"id":4294967296,"unsubscribe":{"channel":"c"}}`, inJSON},
	{"json.id_negative", "a negative id ends the connection with 3501", `{"id":-1,"unsubscribe":{"channel":"c"}}`, inJSON},
	{"json.type", "a request that is not an object ends the connection with 3501", `{"id":2,"unsubscribe":"c"}`, inJSON},
	{"json.blank", "a blank line between commands ends the connection with 3501", "{\"id\":2,\"unsubscribe\":{\"channel\":\"c\"}}\n\n{\"id\":3,\"unsubscribe\":{\"channel\":\"c\"}}", inJSON},
	{"json.only_break", "a frame of a line break alone ends the connection with 3501", "\n", inJSON},
	{"protobuf.cut", "a message that is shorter than its length ends the connection with 3501", "\x08\x08\x02", inProtobuf | framed},
	{"protobuf.length_cut", "a length that is cut off ends the connection with 3501", "\x80", inProtobuf | framed},
	{"protobuf.length_huge", "a length beyond the frame ends the connection with 3501", "\x80\x80\x80\x80\x80\x80\x80\x80\x40", inProtobuf | framed},
	{"protobuf.length_overflow", "a length of more than 64 bits ends the connection with 3501", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", inProtobuf},
	{"protobuf.field_cut", "a field that is cut off ends the connection with 3501", "\x03\x32\x05\x0a", inProtobuf},
	{"protobuf.group", "a wire type that does not exist ends the connection with 3501", "\x02\x0f\x01", inProtobuf},
}

// wellFormed are frames that the server must accept, with the ids of the replies.
var wellFormed = []struct {
	name, rule, frame string
	ids               []uint32
	needs             need
}{
	{"json.break_at_end", "a line break at the end of a frame is accepted", "{\"id\":2,\"unsubscribe\":{\"channel\":\"c\"}}\n", []uint32{2}, inJSON},
	{"json.spaces", "white space around a command is accepted", " \t{\"id\" : 2 ,\"unsubscribe\": {\"channel\":\"c\"} }\r\n", []uint32{2}, inJSON},
	{"json.unknown_keys", "unknown keys are ignored", `{"id":2,"x":[{"y":null}],"unsubscribe":{"channel":"c","z":1e3}}`, []uint32{2}, inJSON},
	{"json.null", "null for a field counts as absent", `{"id":2,"publish":null,"unsubscribe":{"channel":"c"}}`, []uint32{2}, inJSON},
	{"json.escapes", "escapes in keys and values are understood", `{"\u0069d":2,"unsubscribe":{"channel":"\u0063\ud83d\ude00"}}`, []uint32{2}, inJSON},
	{"protobuf.unknown_fields", "unknown fields are skipped", "\x0c\x08\x02\x32\x03\x0a\x01c\xc0\x3e\x05\x08\x03", []uint32{3}, inProtobuf},
	{"protobuf.several", "several messages in one frame are commands of their own", "\x07\x08\x02\x32\x03\x0a\x01c\x07\x08\x03\x32\x03\x0a\x01c", []uint32{2, 3}, inProtobuf},
}

func frameChecks() []check {
	const section = "protocol-rules.md#frames"
	var out []check
	for _, m := range malformed {
		out = append(out, check{"frames." + m.name, section, m.rule, m.needs, func(t *trial) {
			c := t.Connect()
			c.Expects[2] = true // the server has executed the command before the mistake
			c.Conn.Send([]byte(m.frame))
			c.Ends(3501)
		}})
	}
	for _, w := range wellFormed {
		out = append(out, check{"frames." + w.name, section, w.rule, w.needs, func(t *trial) {
			c := t.Connect()
			for _, id := range w.ids {
				c.Expects[id] = true
			}
			c.Conn.Send([]byte(w.frame))
			for _, id := range w.ids {
				c.Succeeded(c.Reply(id))
			}
		}})
	}
	return append(out,
		check{"frames.first", section, "a first frame that cannot be decoded ends the connection with 3501", 0, func(t *trial) {
			frame := map[protocol.Encoding]string{protocol.JSON: "hello", protocol.Protobuf: "\x02\x0f\x01"}[t.Encoding]
			t.OpenFrame([]byte(frame)).Ends(3501)
		}},
		check{"frames.mistake_behind", section, "what precedes a mistake in its frame is done", 0, func(t *trial) {
			c := t.Connect()
			c.Expects[2] = true
			separator := map[protocol.Encoding]string{protocol.JSON: "\n{", protocol.Protobuf: "\x02\x0f\x01"}[t.Encoding]
			c.Conn.Send(append(t.Frame(probe.WithID(2, probe.Unsubscribe("c"))), separator...))
			c.Succeeded(c.Reply(2))
			c.Ends(3501)
		}},
	)
}

func commandChecks() []check {
	const section, replies = "protocol-rules.md#commands", "protocol-rules.md#replies"
	wrong := func(name, rule string, needs need, cmd func(*trial) *protocol.Command) check {
		return check{name, section, rule, needs, func(t *trial) {
			c := t.Connect()
			c.Conn.Send(t.Frame(cmd(t)))
			c.Ends(3501)
		}}
	}
	return []check{
		wrong("commands.without_id", "a command without an id, while no ping waits for its pong, ends the connection with 3501", 0, func(t *trial) *protocol.Command { return probe.Unsubscribe(t.Channel()) }),
		wrong("commands.unknown", "an id without a request ends the connection with 3501", 0, func(*trial) *protocol.Command { return &protocol.Command{ID: 2} }),
		wrong("commands.ping", "clients do not ping: it ends the connection with 3501", 0, func(*trial) *protocol.Command { return &protocol.Command{ID: 2, Ping: &protocol.PingRequest{}} }),
		wrong("commands.pong", "a pong that no ping asked for ends the connection with 3501", 0, func(*trial) *protocol.Command { return &protocol.Command{} }),
		{"commands.several_requests", section, "of several requests in a command the first is taken, by the order of the schema", 0, func(t *trial) {
			c := t.Connect()
			r := c.Call(&protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: "c"}, RPC: &protocol.RPCRequest{Method: "m"}})
			t.Want(r.Error == nil && r.Unsubscribe != nil && r.RPC == nil, "the reply is not that to unsubscribe")
		}},
		{"replies.ids", replies, "a reply has the id of its command, whatever that is", 0, func(t *trial) {
			c := t.Connect()
			for _, id := range []uint32{1 << 31, 7, 1<<32 - 1, 2, 3} {
				c.Send(probe.WithID(id, probe.Unsubscribe(t.Channel())))
				c.Succeeded(c.Reply(id))
			}
		}},
		{"replies.same_id", replies, "ids may be used again", 0, func(t *trial) {
			c := t.Connect()
			for range 3 {
				c.Send(probe.WithID(5, probe.Unsubscribe(t.Channel())))
				c.Succeeded(c.Reply(5))
			}
		}},
		{"replies.batch", replies, "each of the commands in a frame gets one reply", 0, func(t *trial) {
			c := t.Connect()
			var cmds []*protocol.Command
			for range 50 {
				cmds = append(cmds, c.Numbered(probe.Unsubscribe(t.Channel())))
			}
			c.Send(cmds...)
			for _, cmd := range cmds {
				c.Succeeded(c.Reply(cmd.ID))
			}
			c.Still("another reply", func(r *protocol.Reply) bool { return r.ID > 0 })
		}},
		{"replies.one_result", replies, "a reply has an error or the result of its command, even an empty one", stream, func(t *trial) {
			c := t.Connect()
			ch := t.Channel()
			c.Subscribe(ch)
			c.Leave(ch)
			r := c.Call(&protocol.Command{RPC: &protocol.RPCRequest{Method: t.Name, Data: t.Data(1)}})
			t.Want((r.Error == nil) == (r.RPC != nil), "the reply to rpc has an error and a result, or neither")
			if r.Error != nil {
				c.CheckError(r.Error)
			}
		}},
		{"replies.send", replies, "send has no reply; a server that takes no messages ends the connection with 3508", 0, func(t *trial) {
			c := t.Connect()
			c.Conn.Send(t.Frame(&protocol.Command{Send: &protocol.SendRequest{Data: t.Data(1)}}))
			next := c.Numbered(probe.Unsubscribe(t.Channel()))
			c.Send(next)
			r, err := c.Next(t.Timeout)
			if err != nil {
				c.Ends(3508)
				return
			}
			t.Want(r.ID == next.ID, "send is answered")
		}},
	}
}

func pingChecks() []check {
	const section = "protocol-rules.md#pings"
	return []check{
		{"pings.interval", section, "pings come as announced, the first between half and all of the interval; an answered one keeps the connection", 0, func(t *trial) {
			c, begun := t.pinged()
			interval := time.Duration(c.Hello.Ping) * time.Second
			for n := range 2 {
				ping(c, interval)
				at := c.Pings[n]
				if n == 0 {
					t.Want(at.Sub(begun) > interval/2-interval/10, "the first ping comes after %v, before half of the interval of %v", at.Sub(begun).Round(time.Millisecond), interval)
				} else {
					gap := at.Sub(c.Pings[n-1])
					t.Want(gap > interval/2, "two pings are %v apart, with an interval of %v", gap.Round(time.Millisecond), interval)
				}
			}
			c.Alive()
		}},
		{"pings.no_pong", section, "a client that does not answer a ping is closed with 3012", 0, func(t *trial) {
			c, _ := t.pinged()
			t.Want(c.Hello.Pong, "the server does not ask for pongs")
			c.Conn.Answer(false)
			interval := time.Duration(c.Hello.Ping) * time.Second
			ping(c, interval)
			c.EndsWithin(interval+t.Timeout, 3012)
		}},
		{"pings.two_pongs", section, "a second pong to one ping ends the connection with 3501", 0, func(t *trial) {
			c, _ := t.pinged()
			c.Conn.Answer(false)
			ping(c, time.Duration(c.Hello.Ping)*time.Second)
			pong := t.Frame(&protocol.Command{})
			c.Conn.Send(bytes.Clone(pong))
			c.Alive()
			c.Conn.Send(pong)
			c.Ends(3501)
		}},
	}
}

// pinged connects, if the server pings before the patience ends, and returns when the request was on its way.
func (t *trial) pinged() (*client, time.Time) {
	begun := time.Now()
	c := t.Connect()
	switch interval := time.Duration(c.Hello.Ping) * time.Second; {
	case interval == 0:
		t.Skip("the server announces no pings")
	case 2*interval > t.patience:
		t.Skip("the server pings every %v: two of them take longer than --patience", interval)
	}
	if !c.Hello.Pong {
		t.Skip("the server asks for no pongs")
	}
	return c, begun
}

func ping(c *client, interval time.Duration) {
	have := len(c.Pings)
	for deadline := time.Now().Add(interval + c.Timeout); len(c.Pings) == have; {
		r, err := c.Take(time.Until(deadline))
		if err != nil {
			c.Broke(err, fmt.Sprintf("waiting for a ping, with an interval of %v", interval))
		}
		if r != nil {
			c.Pending = append(c.Pending, r)
		}
	}
}
