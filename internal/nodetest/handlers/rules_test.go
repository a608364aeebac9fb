package handlers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
)

// byName gives channels the options that their names begin with.
func byName(ch string) gyro.ChannelOptions {
	switch {
	case strings.HasPrefix(ch, "kept"):
		return gyro.ChannelOptions{HistorySize: 10, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour}
	case strings.HasPrefix(ch, "binary"):
		return gyro.ChannelOptions{Binary: true, HistorySize: 10, HistoryTTL: time.Minute}
	}
	return gyro.ChannelOptions{}
}

// logged returns a configuration whose log goes to a buffer.
func logged(log *bytes.Buffer) gyro.Config {
	return gyro.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}
}

// ended shuts a node down, after which its log is complete, and returns the lines above
// info.
func ended(t *testing.T, node *gyro.Node, log *bytes.Buffer) string {
	t.Helper()
	nodetest.Must(t, node.Shutdown(t.Context()))
	var lines []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// What code publishes has to be JSON: otherwise the call fails, and nobody is disconnected.
func TestPayloadsHaveToBeJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, text := t.Context(), []byte("hello")
		client := make(chan *gyro.Client, 1)
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Connected = func(_ context.Context, c *gyro.Client) { client <- c }
		node := nodetest.Run(t, gyro.Config{Handlers: h})
		a := nodetest.Connect(t, node, "a")
		a.Subscribe("ch", "")
		c := <-client
		batch := []gyro.BatchPublication{{Channel: "ch", Data: text}, {Channel: "ch", Data: []byte("1")}}
		node.PublishBatch(ctx, batch)
		broadcast := node.Broadcast(ctx, []string{"other", "ch"}, text, nil)
		_, publish := node.Publish(ctx, "ch", text, nil)
		const in, out = `gyro: channel "ch": `, `gyro: `
		for what, err := range map[string]error{
			in + "the payload":                   publish,
			in + "the payload ":                  broadcast[1].Err,
			in + "the payload  ":                 batch[0].Err,
			in + "PublishOptions.Info.ChanInfo":  second(node.Publish(ctx, "ch", nil, &gyro.PublishOptions{Info: &gyro.ClientInfo{ChanInfo: text}})),
			in + "SubscribeOptions.Data":         node.Users().Subscribe(ctx, gyro.Target{User: "a"}, "ch", &gyro.SubscribeOptions{Data: text}),
			in + "SubscribeOptions.ChanInfo":     c.Subscribe("ch", &gyro.SubscribeOptions{ChanInfo: text}),
			in + "SubscribeOptions.Publications": c.Subscribe("ch", &gyro.SubscribeOptions{Publications: []*gyro.Publication{{Data: text}}}),
			out + "the data of Send":             c.Send(text),
			out + "RefreshOptions.Info ":         c.Refresh(&gyro.RefreshOptions{Info: text}),
			out + "RefreshOptions.Info":          node.Users().Refresh(ctx, gyro.Target{User: "a"}, &gyro.RefreshOptions{Info: text}),
		} {
			key := "Config.Binary"
			if strings.HasPrefix(what, in) {
				key = "ChannelOptions.Binary"
			}
			want := strings.TrimSpace(what) + " is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; " + key + " allows it"
			if err == nil || err.Error() != want || !errors.Is(err, codec.ErrNotJSON) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if batch[1].Err != nil || broadcast[0].Err == nil {
			t.Errorf("%+v, %+v", batch, broadcast)
		}
		nodetest.WantPub(t, a, "1")
		publish2(t, node, "ch", "")
		nodetest.WantPub(t, a, "")
		nodetest.Must(t, c.Send([]byte("2")))
		if p := a.Push(); p.Message == nil || string(p.Message.Data) != "2" {
			t.Errorf("%+v", p)
		}
		b, err := wstest.Open(ctx, t, node, protocol.Protobuf)
		nodetest.Must(t, err)
		b.Connect(`"token":"b"`)
		nodetest.Must(t, (<-client).Send(text))
		if p := b.Push(); p.Message == nil || string(p.Message.Data) != "hello" {
			t.Errorf("%+v", p)
		}
	})
}

func second[A any](_ A, err error) error { return err }

func publish2(t *testing.T, node *gyro.Node, ch, data string) {
	t.Helper()
	nodetest.Must(t, second(node.Publish(t.Context(), ch, []byte(data), nil)))
}

// What handlers return has to be JSON, and has to fit together: otherwise the client gets
// error 100, and the log says why. Others notice nothing.
func TestHandlersAreChecked(t *testing.T) {
	text := []byte("hello")
	const tail = ` is not JSON (JSON: offset 0: unexpected character), so clients with JSON connections could not read it; `
	in := func(what string) string {
		return `gyro: channel "ch": ` + what + tail + "ChannelOptions.Binary allows it"
	}
	out := func(what string) string { return `gyro: ` + what + tail + "Config.Binary allows it" }
	type reply struct {
		connect   gyro.ConnectReply
		subscribe gyro.SubscribeOptions
		publish   gyro.PublishReply
		presence  gyro.PresenceReply
		history   gyro.HistoryReply
		refresh   gyro.RefreshReply
		sub       gyro.SubRefreshReply
		rpc       []byte
	}
	who := &gyro.Credentials{UserID: "u", ExpireAt: time.Now().Add(24 * time.Hour)}
	noHistory := " needs history, and Config.Channel gives the channel none: its HistorySize and HistoryTTL are 0"
	for _, tt := range []struct {
		command string
		reply   reply
		handler string
		want    string
	}{
		{``, reply{connect: gyro.ConnectReply{Data: text, Credentials: who}}, "Connecting", out("ConnectReply.Data")},
		{``, reply{connect: gyro.ConnectReply{Credentials: &gyro.Credentials{Info: text}}}, "Connecting", out("Credentials.Info")},
		{``, reply{connect: gyro.ConnectReply{Credentials: who, Subscriptions: map[string]gyro.SubscribeOptions{"ch": {Data: text}}}}, "Connecting", in("SubscribeOptions.Data")},
		{``, reply{connect: gyro.ConnectReply{Credentials: who, Subscriptions: map[string]gyro.SubscribeOptions{"ch": {Recoverable: true}}}}, "Connecting",
			`gyro: channel "ch": SubscribeOptions: Recoverable` + noHistory},
		{`"subscribe":{"channel":"ch"}`, reply{subscribe: gyro.SubscribeOptions{ChanInfo: text}}, "Subscribe", in("SubscribeOptions.ChanInfo")},
		{`"subscribe":{"channel":"ch"}`, reply{subscribe: gyro.SubscribeOptions{Positioned: true}}, "Subscribe", `gyro: channel "ch": SubscribeOptions: Positioned` + noHistory},
		{`"subscribe":{"channel":"ch"}`, reply{subscribe: gyro.SubscribeOptions{AutoRecover: true}}, "Subscribe", `gyro: channel "ch": SubscribeOptions: AutoRecover needs Recoverable`},
		{`"publish":{"channel":"ch","data":1}`, reply{publish: gyro.PublishReply{Data: text}}, "Publish", in("the payload")},
		{`"publish":{"channel":"ch","data":1}`, reply{publish: gyro.PublishReply{Options: gyro.PublishOptions{Info: &gyro.ClientInfo{ConnInfo: text}}}}, "Publish", in("PublishOptions.Info.ConnInfo")},
		{`"publish":{"channel":"ch","data":1}`, reply{publish: gyro.PublishReply{Options: gyro.PublishOptions{HistorySize: 1}}}, "Publish",
			`gyro: channel "ch": PublishOptions: HistorySize (1) and HistoryTTL (0s) must both be set, or neither`},
		{`"presence":{"channel":"ch"}`, reply{presence: gyro.PresenceReply{Clients: map[string]*gyro.ClientInfo{"x": {ConnInfo: text}}}}, "Presence", in("PresenceReply.Clients.ConnInfo")},
		{`"history":{"channel":"ch","limit":1}`, reply{history: gyro.HistoryReply{History: &gyro.History{Publications: []*gyro.Publication{{Data: text}}}}}, "History", in("HistoryReply.History")},
		{`"rpc":{"method":"m"}`, reply{rpc: text}, "RPC", out("the reply")},
		{`"refresh":{"token":"t"}`, reply{refresh: gyro.RefreshReply{Info: text}}, "Refresh", out("RefreshReply.Info")},
		{`"sub_refresh":{"channel":"ch","token":"t"}`, reply{sub: gyro.SubRefreshReply{Info: text}}, "SubRefresh", in("SubRefreshReply.Info")},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			cfg, r := logged(&log), tt.reply
			cfg.Channel = byName
			cfg.Handlers = gyro.Handlers{
				Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
					if tt.command == "" {
						return r.connect, nil
					}
					return gyro.ConnectReply{Credentials: who, ClientSideRefresh: true}, nil
				},
				Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
					return gyro.SubscribeReply{Options: r.subscribe, ClientSideRefresh: true}, nil
				},
				Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
					return r.publish, nil
				},
				Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
					return r.presence, nil
				},
				History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
					return r.history, nil
				},
				RPC: func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) { return r.rpc, nil },
				Refresh: func(context.Context, *gyro.Client, gyro.RefreshEvent) (gyro.RefreshReply, error) {
					return r.refresh, nil
				},
				SubRefresh: func(context.Context, *gyro.Client, gyro.SubRefreshEvent) (gyro.SubRefreshReply, error) {
					return r.sub, nil
				},
			}
			node := nodetest.Run(t, cfg)
			c := wstest.Pipe(t, node)
			command := `"connect":{}`
			if tt.command != "" {
				c.Connect("")
				if tt.handler == "SubRefresh" {
					c.Subscribe("ch", "")
				}
				command = tt.command
			}
			if outcome, _ := c.Outcome(command); outcome != "error 100" {
				t.Errorf("%s %s: %s", tt.handler, command, outcome)
			}
			lines := ended(t, node, &log)
			if !strings.Contains(lines, `level=ERROR msg="handler failed" handler=`+tt.handler+" ") ||
				!strings.Contains(strings.ReplaceAll(lines, `\"`, `"`), `error="`+tt.want+`"`) || strings.Count(lines, "\n") != 1 {
				t.Errorf("%s: no line with\n%s\nalone in\n%s", tt.handler, tt.want, lines)
			}
		})
	}
}

// A Protobuf client that publishes what the JSON clients of the channel could not read gets
// error 107.
func TestClientsPublishJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := logged(&log)
		cfg.Channel, cfg.Handlers = byName, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		node := nodetest.Run(t, cfg)
		a, b := nodetest.Connect(t, node, "a"), protobuf(t, node)
		a.Subscribe("ch", "")
		b.Subscribe("binary", "")
		for ch, want := range map[string]uint32{"ch": 107, "binary": 0} {
			cmd := protocol.Command{ID: 77, Publish: &protocol.PublishRequest{Channel: ch, Data: []byte("hello")}}
			msg, err := codec.ForClient(protocol.Protobuf).AppendCommand(nil, &cmd)
			nodetest.Must(t, err)
			b.Raw(msg)
			if r := b.Await(77); want == 0 && r.Error != nil || want != 0 && (r.Error == nil || r.Error.Code != want) {
				t.Errorf("%s: %+v", ch, r)
			}
		}
		nodetest.WantPub(t, b, "hello")
		a.Do(`"publish":{"channel":"ch","data":1}`)
		nodetest.WantPub(t, a, "1")
		nodetest.Must(t, node.Shutdown(t.Context()))
		if want := `user=b channel=ch code=107 reason="the client's payload is not JSON" key=ChannelOptions.Binary`; strings.Count(log.String(), want) != 1 {
			t.Errorf("no line\n%s\nin\n%s", want, log.String())
		}
	})
}

func protobuf(t *testing.T, node *gyro.Node) *wstest.Client {
	t.Helper()
	c, err := wstest.Open(t.Context(), t, node, protocol.Protobuf)
	nodetest.Must(t, err)
	c.Connect(`"token":"b"`)
	return c
}

// In a binary channel, JSON clients do not get payloads that they cannot read, whatever way these come, and get what follows.
// Each one is counted, and the log tells of it once per channel and minute.
func TestBinaryPayloadsMeetJSONClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := logged(&log)
		cfg.Channel, cfg.Handlers = byName, nodetest.Everything(gyro.SubscribeOptions{Recoverable: true, AllowDelta: true}, gyro.PublishOptions{})
		node := nodetest.Run(t, cfg)
		b := protobuf(t, node)
		b.Subscribe("binary1", "")
		meet := func(ch string) {
			t.Helper()
			var all []*wstest.Client
			for range 3 {
				c := nodetest.Connect(t, node, "a")
				c.Subscribe(ch, "")
				all = append(all, c)
			}
			publish2(t, node, ch, "hello")
			publish2(t, node, ch, `"for all"`)
			for _, c := range all {
				nodetest.WantPub(t, c, `"for all"`)
			}
		}
		meet("binary1")
		nodetest.WantPub(t, b, "hello")
		nodetest.WantPub(t, b, `"for all"`)
		meet("binary1")
		meet("binary2")
		time.Sleep(time.Minute)
		meet("binary1")
		for ch, command := range map[string]string{
			"binary3": `"subscribe":{"channel":"binary3","recover":true}`,
			"binary4": `"subscribe":{"channel":"binary4","recover":true,"delta":"fossil"}`,
			"binary5": `"history":{"channel":"binary5","limit":1}`,
		} {
			c := nodetest.Connect(t, node, "a")
			at, err := node.Publish(t.Context(), ch, []byte("hello"), nil)
			nodetest.Must(t, err)
			command = strings.Replace(command, `"recover":true`, `"recover":true,"epoch":"`+at.Position.Epoch+`"`, 1)
			if outcome, r := c.Outcome(command); outcome != "ok" || r.Subscribe != nil && len(r.Subscribe.Publications) > 0 || r.History != nil && len(r.History.Publications) > 0 {
				t.Errorf("%s: %s, %+v", command, outcome, r)
			}
		}
		lines := ended(t, node, &log)
		for ch, want := range map[string]int{"binary1": 2, "binary2": 1, "binary3": 1, "binary4": 1, "binary5": 1} {
			line := ` user=a channel=` + ch + ` reason="a client with a JSON connection cannot get it: send JSON, or have all clients that get it use Protobuf" key=ChannelOptions.Binary`
			if got := strings.Count(lines, line); got != want || !strings.Contains(lines, `level=WARN msg="publication left out for clients with JSON: it is not JSON" client=`) {
				t.Errorf("%s: %d lines\n%s\nin\n%s", ch, got, line, lines)
			}
		}
		if strings.Count(lines, "\n") != 6 {
			t.Error(lines)
		}
	})
}

// Payloads outside of channels, which a binary node does not check.
func TestBinaryNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := logged(&log)
		cfg.Binary, cfg.Handlers = true, nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		cfg.Handlers.RPC = func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) { return []byte("hello"), nil }
		node := nodetest.Run(t, cfg)
		if r := protobuf(t, node).Do(`"rpc":{"method":"m"}`); string(r.RPC.Data) != "hello" {
			t.Errorf("%+v", r)
		}
		if outcome, _ := nodetest.Connect(t, node, "a").Outcome(`"rpc":{"method":"m"}`); outcome != "disconnect 3506" {
			t.Error(outcome)
		}
		if lines := ended(t, node, &log); strings.Count(lines, `msg="client disconnected: a payload is not JSON"`) != 1 {
			t.Error(lines)
		}
	})
}

// The options of a channel are those of what is published in it, by code and by clients, and
// of subscriptions to it.
func TestChannelOptions(t *testing.T) {
	for name, engine := range map[string]broker.Broker{
		"batches": memory.New(memory.Config{}), "plain": nodetest.Plain(memory.New(memory.Config{})),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			node := nodetest.Run(t, gyro.Config{Broker: engine, Channel: byName, Handlers: nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})})
			a := nodetest.Connect(t, node, "a")
			a.Subscribe("kept", "")
			offset := func(want uint64, r gyro.PublishResult, err error) {
				t.Helper()
				if err != nil || r.Position.Offset != want {
					t.Errorf("got %+v, %v; want offset %d", r, err, want)
				}
			}
			r, err := node.Publish(ctx, "kept", []byte("1"), nil)
			offset(1, r, err)
			r, err = node.Publish(ctx, "kept", []byte("2"), &gyro.PublishOptions{SkipHistory: true})
			offset(0, r, err)
			a.Do(`"publish":{"channel":"kept","data":3}`) // offset 2
			r, err = node.Publish(ctx, "none", []byte("4"), nil)
			offset(0, r, err)
			// The same options and data in channels of both kinds.
			for i, r := range node.Broadcast(ctx, []string{"kept", "none", "kept1", "none", "kept"}, []byte("5"), nil) {
				offset([]uint64{3, 0, 1, 0, 4}[i], r.PublishResult, r.Err)
			}
			r, err = node.Publish(ctx, "none", []byte("6"), nodetest.Keep(1, time.Minute))
			offset(1, r, err)
			for _, want := range []string{"1 1", "2 0", "3 2", "5 3", "5 4"} {
				if p := a.Pub(); string(p.Data) != want[:1] || p.Offset != uint64(want[2]-'0') {
					t.Errorf("got %s with offset %d, want %s", p.Data, p.Offset, want)
				}
			}
			if outcome, _ := a.Outcome(`"subscribe":{"channel":"none"}`); outcome != "error 100" {
				t.Errorf("recoverable without history: %s", outcome)
			}
			if err := node.Users().Subscribe(ctx, gyro.Target{User: "a"}, "none", &gyro.SubscribeOptions{Recoverable: true}); err == nil || !strings.Contains(err.Error(), "Recoverable needs history") {
				t.Error(err)
			}
		})
	}
}

func TestEveryChannel(t *testing.T) {
	o := gyro.ChannelOptions{HistorySize: 1, HistoryTTL: time.Second}
	node := nodetest.Run(t, gyro.Config{Channel: gyro.EveryChannel(o)})
	if r, err := node.Publish(t.Context(), "any", []byte("1"), nil); err != nil || r.Position.Offset != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	node = nodetest.Run(t, gyro.Config{Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 1})})
	want := `gyro: channel "any": Config.Channel: HistorySize (1) and HistoryTTL (0s) must both be set, or neither`
	if _, err := node.Publish(t.Context(), "any", []byte("1"), nil); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// metaTTLs notes the times to live that reads of history come with.
type metaTTLs struct {
	broker.Broker
	ttls chan time.Duration
}

func (m metaTTLs) Describe() broker.Traits { return broker.Traits{Name: "meta"} }

func (m metaTTLs) History(ctx context.Context, ch string, f broker.HistoryFilter) (broker.History, error) {
	m.ttls <- f.MetaTTL
	return m.Broker.History(ctx, ch, f)
}

// Reads renew the position for as long as the channel's options say.
func TestHistoryMetaTTL(t *testing.T) {
	engine := metaTTLs{memory.New(memory.Config{}), make(chan time.Duration, 8)}
	node := nodetest.Run(t, gyro.Config{Broker: engine, Channel: byName, Handlers: nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})})
	a := nodetest.Connect(t, node, "a")
	a.Subscribe("kept", "")
	a.Do(`"history":{"channel":"kept"}`)
	nodetest.Must(t, second(node.History(t.Context(), "kept", nil)))
	nodetest.Must(t, second(node.History(t.Context(), "kept", &gyro.HistoryFilter{MetaTTL: time.Minute})))
	for i, want := range []time.Duration{time.Hour, time.Hour, time.Hour, time.Minute} {
		if got := wait.Receive(t, "a read", engine.ttls); got != want {
			t.Errorf("read %d: %v, want %v", i, got, want)
		}
	}
}

// Without Config.Channel, a publication that recoverable subscribers lose is warned of.
func TestPublicationsWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := logged(&log)
		cfg.Handlers = nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})
		node := nodetest.Run(t, cfg)
		publish2(t, node, "a", "1") // without subscribers
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("a", "")
		c.Subscribe("b", "")
		publish2(t, node, "other", "1")
		nodetest.Must(t, second(node.Publish(t.Context(), "a", []byte("1"), &gyro.PublishOptions{SkipHistory: true})))
		nodetest.Publish(t, node, "a", "1", nodetest.Keep(1, time.Minute))
		for range 3 {
			publish2(t, node, "a", "1")
			node.Broadcast(t.Context(), []string{"a", "b"}, []byte("1"), nil)
		}
		lines := ended(t, node, &log)
		for _, ch := range []string{"a", "b"} {
			want := `level=WARN msg="a publication without history went to a channel with recoverable or positioned subscribers: those who are away lose it" channel=` + ch + " key=Config.Channel\n"
			if strings.Count(lines, want) != 1 {
				t.Errorf("no line\n%s\nin\n%s", want, lines)
			}
		}
		if strings.Count(lines, "\n") != 2 {
			t.Error(lines)
		}
	})
}

// A payload is checked once: where it is published.
func TestPublicationsAreMarked(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{Channel: byName, Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})})
	a := nodetest.Connect(t, node, "a")
	a.Subscribe("kept", "")
	for i, data := range []string{`{"a":1}`, "{\n\"a\":1}", ""} {
		publish2(t, node, "kept", data)
		nodetest.WantPub(t, a, strings.ReplaceAll(data, "\n", ""))
		h, err := node.History(t.Context(), "kept", &gyro.HistoryFilter{Limit: 1, Reverse: true})
		nodetest.Must(t, err)
		if p := h.Publications[0]; p.Checked != (i == 0) || string(p.Data) != data {
			t.Errorf("%q: %+v", data, p)
		}
	}
	publish2(t, node, "binary", `1`)
	if h, err := node.History(t.Context(), "binary", &gyro.HistoryFilter{Limit: 1}); err != nil || h.Publications[0].Checked {
		t.Errorf("a payload that nobody checked: %+v, %v", h, err)
	}
}

// What a JSON connection has read is JSON, also in a binary channel, and has no LF. It may have CR.
func TestPublicationsOfJSONClientsAreMarked(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{Channel: byName, Handlers: nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})})
	a, b := nodetest.Connect(t, node, "a"), protobuf(t, node)
	for data, want := range map[string]bool{`{"a":1}`: true, "{\r\"a\":1}": false} {
		a.Do(`"publish":{"channel":"binary","data":` + data + `}`)
		wantMark(t, node, data, want)
	}
	b.Do(`"publish":{"channel":"binary","data":{"b":1}}`)
	wantMark(t, node, `{"b":1}`, false)
}

// wantMark checks the last publication of the channel binary.
func wantMark(t *testing.T, node *gyro.Node, data string, checked bool) {
	t.Helper()
	h, err := node.History(t.Context(), "binary", &gyro.HistoryFilter{Limit: 1, Reverse: true})
	nodetest.Must(t, err)
	if p := h.Publications[0]; string(p.Data) != data || p.Checked != checked {
		t.Errorf("%+v, want %q, checked %v", p, data, checked)
	}
}

// Elements of a batch that share options are still judged by their own data.
func TestSharedOptions(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{})
	for _, o := range []*gyro.PublishOptions{nodetest.Keep(10, time.Minute), {SkipHistory: true}, {HistorySize: 1}} {
		var batch []gyro.BatchPublication
		for _, data := range []string{`1`, `no`, `no`, `{"a":2}`, ``} {
			batch = append(batch, gyro.BatchPublication{Channel: "ch", Data: []byte(data), Options: o})
		}
		node.PublishBatch(t.Context(), batch)
		for i, p := range batch {
			if want := i == 1 || i == 2 || o.HistoryTTL == 0 && o.HistorySize == 1; (p.Err != nil) != want {
				t.Errorf("%+v, element %d: %v", *o, i, p.Err)
			}
		}
	}
}
