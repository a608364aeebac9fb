package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	natsio "github.com/nats-io/nats.go"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

func isBad(err error) bool { return errors.Is(err, protocol.ErrorBadRequest) }

func TestWildcards(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	b := run(t, Config{URL: url}, ignore{})
	for _, ch := range []string{"a.*", "a.>", "*", ">", "a*b"} {
		if err := b.Subscribe(t.Context(), ch); !isBad(err) {
			t.Errorf("subscribing to %s: %v", ch, err)
		}
		if err := publish(b, ch, "1"); !isBad(err) {
			t.Errorf("publishing to %s: %v", ch, err)
		}
	}

	got := newEvents()
	b = run(t, Config{URL: url, AllowWildcards: true}, got)
	if err := publish(b, "a.*", "1"); !isBad(err) {
		t.Errorf("publishing to a pattern: %v", err)
	}
	if err := b.Subscribe(t.Context(), "a.>.b"); !isBad(err) {
		t.Errorf("subscribing to what is no pattern: %v", err)
	}
	must(t, b.Subscribe(t.Context(), "a.*", "a.b", "a.>"))
	info := &channel.ClientInfo{Client: "c"}
	must(t, b.PublishJoin(t.Context(), "a.b", info))
	must(t, publish(b, "a.b", "1"))
	must(t, b.PublishLeave(t.Context(), "a.b", info))
	must(t, publish(b, "a.c.d", "2"))
	must(t, b.Unsubscribe(t.Context(), "a.>"))
	must(t, publish(b, "a.e", "3"))
	seen := map[string]int{}
	for e := range got {
		if e.kind == "publication" {
			seen[fmt.Sprintf("%s of %s in %s", e.pub.Data, e.pub.Channel, e.ch)]++
			if string(e.pub.Data) == "3" && e.ch == "a.*" {
				break
			}
		} else {
			seen[e.kind+" in "+e.ch]++
		}
	}
	want := []string{"1 of a.b in a.*", "1 of a.b in a.b", "1 of a.b in a.>", "2 of a.c.d in a.>", "3 of a.e in a.*", "join in a.b", "leave in a.b"}
	wait.Until(t, "all events", func() bool {
		for len(got) > 0 {
			e := <-got
			seen[e.kind+" in "+e.ch]++
			if e.pub != nil {
				seen[fmt.Sprintf("%s of %s in %s", e.pub.Data, e.pub.Channel, e.ch)]++
			}
		}
		for _, w := range want {
			if seen[w] == 0 {
				return false
			}
		}
		return true
	})
	for _, w := range want {
		if seen[w] != 1 {
			t.Errorf("%s: %d times", w, seen[w])
		}
	}
	if n := seen["join in a.*"] + seen["join in a.>"]; n > 0 {
		t.Error("a pattern got a join")
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	got := newEvents()
	b := run(t, Config{URL: url, Raw: RawMode{
		Enabled: true, Prefix: "app.", Replacements: map[string]string{":": ".", "::": "..x", "#": "-", "!": "*"},
	}}, got)
	other, err := natsio.Connect(url)
	must(t, err)
	defer other.Close()
	seen, err := other.SubscribeSync("app.>")
	must(t, err)
	must(t, other.Flush())

	must(t, b.Subscribe(t.Context(), "news:one#1", "news.one-1"))
	pub := &channel.Publication{Data: []byte(`{"a":1}`), Tags: map[string]string{"k": "v"}, Info: &channel.ClientInfo{Client: "c"}}
	_, err = b.Publish(t.Context(), "news:one#1", pub, broker.PublishOptions{Delta: true})
	must(t, err)
	m, err := seen.NextMsg(10e9)
	if err != nil || m.Subject != "app.news.one-1" || string(m.Data) != `{"a":1}` {
		t.Fatalf("%+v, %v", m, err)
	}
	must(t, b.PublishJoin(t.Context(), "news:one#1", pub.Info))
	must(t, b.PublishLeave(t.Context(), "news:one#1", pub.Info))
	must(t, other.Publish("app.news.one-1", []byte("anything")))
	channels := map[string]int{}
	for range 4 {
		e := got.next(t, "publication")
		channels[e.ch+" "+string(e.pub.Data)]++
		if e.pub.Channel != "news.one-1" || e.pub.Info != nil || e.pub.Tags != nil || e.delta || e.pub.Time == 0 {
			t.Errorf("%+v", e.pub)
		}
	}
	if len(channels) != 4 {
		t.Errorf("got %v", channels)
	}
	for _, ch := range []string{"a::b", "a!b", "", "a b"} {
		if err := publish(b, ch, "1"); !isBad(err) {
			t.Errorf("publishing to %q: %v", ch, err)
		}
	}
	must(t, b.Unsubscribe(t.Context(), "news:one#1"))
	must(t, publish(b, "news.one-1", "last"))
	if e := got.next(t, "publication"); e.ch != "news.one-1" || string(e.pub.Data) != "last" {
		t.Errorf("%+v", e)
	}
}

// What travels is what other nodes of the deployment understand.
func TestWireFormat(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	other, err := natsio.Connect(url)
	must(t, err)
	defer other.Close()
	seen, err := other.SubscribeSync("pre.fix.client.>")
	must(t, err)
	must(t, other.Flush())
	got := newEvents()
	b := run(t, Config{URL: url, Prefix: "pre.fix"}, got)
	must(t, b.Subscribe(t.Context(), "a:b"))
	info := &channel.ClientInfo{User: "u", Client: "c"}
	_, err = b.Publish(t.Context(), "a:b", &channel.Publication{Data: []byte("1"), Info: info, Time: 7}, broker.PublishOptions{Delta: true, HistorySize: 5, HistoryTTL: 5})
	must(t, err)
	must(t, b.PublishJoin(t.Context(), "a:b", info))
	for range 2 {
		m, err := seen.NextMsg(10e9)
		must(t, err)
		var push protocol.Push
		must(t, push.UnmarshalProto(m.Data))
		if m.Subject != "pre.fix.client.a:b" || push.Channel != "a:b" || push.ID != 0 {
			t.Errorf("%s: %+v", m.Subject, push)
		}
		switch {
		case push.Pub != nil:
			if p := push.Pub; string(p.Data) != "1" || p.Info.User != "u" || !p.Delta || p.Time != 7 || p.Offset != 0 {
				t.Errorf("%+v", p)
			}
		case push.Join.Info.Client != "c":
			t.Errorf("%+v", push.Join)
		}
	}
	if e := got.next(t, "publication"); !e.delta {
		t.Error("delta got lost")
	}

	// Garbage is dropped, and harmless.
	for _, data := range []string{"", "garbage", "\x22", "\x2a\x00", "\x32\x00"} {
		must(t, other.Publish("pre.fix.client.a:b", []byte(data)))
	}
	must(t, other.Publish("pre.fix.client.a:b", (&protocol.Push{Pub: &protocol.Publication{Data: []byte("2"), Offset: 9}}).AppendProto(nil)))
	if e := got.next(t, "publication"); string(e.pub.Data) != "2" || e.pub.Offset != 0 {
		t.Errorf("%+v", e.pub)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	b := run(t, Config{URL: startServer(t, &server.Options{MaxPayload: 1000}).ClientURL()}, ignore{})
	err := publish(b, "a", strings.Repeat("x", 1000))
	if !errors.Is(err, protocol.ErrorLimitExceeded) || !strings.Contains(err.Error(), "1000") {
		t.Error(err)
	}
	if err := publish(b, strings.Repeat("a", 3000), "1"); !isBad(err) || !strings.Contains(err.Error(), "2048") {
		t.Error(err)
	}
	batch := []broker.BatchItem{
		{Channel: "a", Pub: &channel.Publication{Data: make([]byte, 1000)}},
		{Channel: "a b", Pub: &channel.Publication{}},
		{Channel: "a", Pub: &channel.Publication{}},
	}
	b.PublishBatch(t.Context(), batch)
	if !errors.Is(batch[0].Err, protocol.ErrorLimitExceeded) || !isBad(batch[1].Err) || batch[2].Err != nil {
		t.Errorf("%v, %v, %v", batch[0].Err, batch[1].Err, batch[2].Err)
	}
	must(t, publish(b, "a", "1"))
}

func TestNotAvailable(t *testing.T) {
	t.Parallel()
	b := newBroker(t, Config{})
	_, err := b.History(t.Context(), "a", broker.HistoryFilter{})
	if !errors.Is(err, protocol.ErrorNotAvailable) || !errors.Is(b.RemoveHistory(t.Context(), "a"), protocol.ErrorNotAvailable) {
		t.Error(err)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	var mu sync.Mutex
	got := map[string]int{}
	var nodes []*Broker
	for _, name := range []string{"one", "two"} {
		b := newBroker(t, Config{URL: url})
		if name == "two" { // connected before anybody asked for control messages
			must(t, b.Connect(t.Context()))
			must(t, b.Connect(t.Context()))
		}
		must(t, b.RunControl(name, func(data []byte) {
			mu.Lock()
			defer mu.Unlock()
			got[name+" "+string(data)]++
		}))
		if b.RunControl(name, nil) == nil {
			t.Error("a second RunControl")
		}
		must(t, b.Run(ignore{}))
		defer b.Close(context.Background())
		nodes = append(nodes, b)
	}
	must(t, nodes[0].PublishControl(t.Context(), "", []byte("all")))
	must(t, nodes[0].PublishControl(t.Context(), "two", []byte("you")))
	if err := nodes[0].PublishControl(t.Context(), "three", []byte("nobody")); !errors.Is(err, broker.ErrNoReceiver) {
		t.Errorf("a message for nobody: %v", err)
	}
	must(t, nodes[1].PublishControl(t.Context(), "two", []byte("me")))
	wait.Until(t, "all messages", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 4 && got["one all"] == 1 && got["two all"] == 1 && got["two you"] == 1 && got["two me"] == 1
	})
	for _, node := range []string{"a.b", "a b", "*"} {
		if nodes[0].PublishControl(t.Context(), node, nil) == nil || newBroker(t, Config{URL: url}).RunControl(node, nil) == nil {
			t.Errorf("node %q", node)
		}
	}
}

// Concurrent publishes share round trips.
func TestSharedFlush(t *testing.T) {
	t.Parallel()
	b := run(t, Config{URL: startServer(t, nil).ClientURL()}, ignore{})
	before := b.flusher.begin()
	var wg sync.WaitGroup
	const n = 64
	for range n {
		wg.Go(func() {
			for range 20 {
				if err := publish(b, "a", "1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if pings := b.flusher.begin() - before; pings > n*20/4 {
		t.Errorf("%d pings for %d publications", pings, n*20)
	}
}

// Whatever others send is harmless.
func FuzzDeliver(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add(appendPush(nil, "news", message{pub: &channel.Publication{Data: payload, Tags: map[string]string{"a": "b"}}}), false)
	f.Add(appendPush(nil, "news", message{join: &channel.ClientInfo{Client: "c"}}), false)
	f.Add(appendPush(nil, "news", message{leave: &channel.ClientInfo{Client: "c"}}), true)
	f.Fuzz(func(t *testing.T, data []byte, wildcards bool) {
		got := newEvents()
		b := newBroker(t, Config{AllowWildcards: wildcards, Logger: slog.New(slog.DiscardHandler)})
		b.handler = got
		b.deliver("news", &natsio.Msg{
			Subject: "gyro.client.news", Sub: &natsio.Subscription{Subject: "gyro.client.news"}, Data: data,
		})
		var want protocol.Push
		if err := want.UnmarshalProto(data); err != nil {
			if len(got) > 0 {
				t.Errorf("%v, but %+v was delivered", err, <-got)
			}
			return
		}
		if len(got) == 0 {
			return
		}
		e := <-got
		switch {
		case want.Pub != nil:
			if e.kind != "publication" || !bytes.Equal(e.pub.Data, want.Pub.Data) || e.pub.Offset != 0 || wildcards && e.pub.Channel != "news" {
				t.Errorf("%+v of %+v", e, want.Pub)
			}
		case e.info == nil:
			t.Errorf("%s of nobody", e.kind)
		}
	})
}

func FuzzSubject(f *testing.F) {
	for _, s := range []string{"", ".", "a", "a.b", "a..b", ".a", "a.", "a.*", "a.>", "a.>.b", ">", ">>", "a b", "a\x00", "a.\t"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := server.IsValidSubject(s) && !strings.Contains(s, "\x00")
		if got := validSubject(s); got != want {
			t.Errorf("%q: %v, the server says %v", s, got, want)
		}
	})
}

// No channel reaches the subjects by which nodes talk, nor the subjects of NATS itself, by its
// name or by a wildcard.
func TestReservedSubjects(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	for _, tt := range []struct {
		prefix, raw  string
		replacements map[string]string
		publish, sub string // channels that are refused
		fine         string
	}{
		{
			publish: "gyro.control gyro.control.x gyro.node.b gyro.canary.1 gyro.client.room " +
				"$SYS.REQ.SERVER.PING $JS.API.STREAM.DELETE.x $KV.bucket.key $O.b.C.x $JSC.x $SRV.PING _INBOX.abc.def _R_.x _GR_.x _INBOX",
			sub: "gyro.* gyro.> gyro.*.x gyro.node.* gyro.node.> gyro.canary.> gyro.*.room " +
				"$SYS.> $JS.> $JS.*.INFO _INBOX.> _INBOX.*",
			fine: "gyro gyro.room gyro.controls gyro.node a.gyro.control $secret $secret.x $Secret _x control",
		},
		{
			prefix: "my.app", raw: "my.",
			publish: "app.control app.node.b app.canary.1 app.client.x",
			sub:     "app.* app.> app.*.b",
			fine:    "app.x control $SYS.x",
		},
		{
			replacements: map[string]string{":": ".", "!": "*", "~": "$"},
			publish:      "gyro:control gyro:node:b ~SYS:x ~JS:API",
			sub:          "gyro:* gyro:! gyro:> ~JS:>",
			fine:         "gyro:room",
		},
		{
			raw:     "gyro.",
			publish: "control node.b canary.1 client.room",
			sub:     "node.* node.> canary.>",
			fine:    "room control2",
		},
	} {
		b := run(t, Config{
			URL: url, Prefix: tt.prefix, AllowWildcards: true,
			Raw: RawMode{Enabled: true, Prefix: tt.raw, Replacements: tt.replacements},
		}, ignore{})
		for ch := range strings.FieldsSeq(tt.publish) {
			for what, err := range map[string]error{"publishing": publish(b, ch, "1"), "subscribing": b.Subscribe(t.Context(), ch)} {
				var e *protocol.Error
				if !isBad(err) || !errors.As(err, &e) || !strings.Contains(e.Message, "bad request: ") || !strings.Contains(e.Message, ch) {
					t.Errorf("%s to %s with prefix %q: %v", what, ch, tt.raw, err)
				}
			}
		}
		for ch := range strings.FieldsSeq(tt.sub) {
			if err := b.Subscribe(t.Context(), ch); !isBad(err) {
				t.Errorf("subscribing to %s with prefix %q: %v", ch, tt.raw, err)
			}
		}
		for ch := range strings.FieldsSeq(tt.fine) {
			must(t, publish(b, ch, "1"))
			must(t, b.Subscribe(t.Context(), ch))
		}
		batch := []broker.BatchItem{
			{Channel: strings.Fields(tt.publish)[0], Pub: &channel.Publication{Data: []byte("1")}},
			{Channel: strings.Fields(tt.fine)[0], Pub: &channel.Publication{Data: []byte("1")}},
		}
		b.PublishBatch(t.Context(), batch)
		if !isBad(batch[0].Err) || batch[1].Err != nil {
			t.Errorf("batch with prefix %q: %v, %v", tt.raw, batch[0].Err, batch[1].Err)
		}
	}
}

// In the usual mode channels are below a subject of their own.
func TestReservedSubjectsAreElsewhere(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	b := run(t, Config{URL: url, AllowWildcards: true}, ignore{})
	for _, ch := range []string{"gyro.control", "$SYS.x", "_INBOX.x", "control"} {
		must(t, publish(b, ch, "1"))
	}
	for _, ch := range []string{"*", ">", "*.control", "*x", ">.a"} {
		if err := b.Subscribe(t.Context(), ch); !isDenied(err) && ch != ">.a" || err == nil {
			t.Errorf("subscribing to %s: %v", ch, err)
		}
	}
	for _, cfg := range []Config{
		{Prefix: "$SYS"}, {Prefix: "_INBOX.x"},
		{Raw: RawMode{Enabled: true, Prefix: "gyro.node."}}, {Raw: RawMode{Enabled: true, Prefix: "$JS."}},
		{Raw: RawMode{Enabled: true, Prefix: "gyro.client."}},
	} {
		cfg.URL = url
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// A replacement does not make a wildcard where these are not allowed.
func TestReplacedWildcards(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	for _, allowed := range []bool{false, true} {
		b := run(t, Config{URL: url, AllowWildcards: allowed, Raw: RawMode{Enabled: true, Prefix: "app.", Replacements: map[string]string{"!": "*"}}}, ignore{})
		if err := b.Subscribe(t.Context(), "a.!"); (err == nil) != allowed {
			t.Errorf("allowed %v: %v", allowed, err)
		}
		if err := b.Subscribe(t.Context(), "!.a"); err == nil {
			t.Errorf("allowed %v: begins with a wildcard", allowed)
		}
	}
}

// What a wildcard matches is delivered as far as Covers says.
func TestCovers(t *testing.T) {
	t.Parallel()
	url := startServer(t, nil).ClientURL()
	for _, raw := range []RawMode{{}, {Enabled: true}, {Enabled: true, Prefix: "app.", Replacements: map[string]string{":": "."}}} {
		got := newEvents()
		asked := make(chan string, 100)
		b := run(t, Config{URL: url, AllowWildcards: true, Raw: raw, Covers: func(pattern, ch string) bool {
			asked <- pattern + " " + ch
			return !strings.Contains(ch, "#")
		}}, got)
		pattern, secret, open := "news.*", "news.#1", "news.a"
		if raw.Replacements != nil {
			pattern, secret, open = "news:*", "news:#1", "news:a"
		}
		must(t, b.Subscribe(t.Context(), pattern, secret))
		must(t, publish(b, secret, "1"))
		must(t, publish(b, open, "2"))
		seen := map[string]bool{}
		for range 2 {
			e := got.next(t, "publication")
			seen[string(e.pub.Data)+" in "+e.ch] = true
		}
		if !seen["1 in "+secret] || !seen["2 in "+pattern] || len(got) > 0 {
			t.Errorf("%+v: got %v and %d more", raw, seen, len(got))
		}
		if a := <-asked + ", " + <-asked; a != pattern+" "+secret+", "+pattern+" "+open || len(asked) > 0 {
			t.Errorf("%+v: asked for %s and %d more", raw, a, len(asked))
		}
	}
}
