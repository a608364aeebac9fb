package conformance

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/tools/conformance/talk"
	"github.com/gyrohq/gyro/server/internal/tools/wire"
)

// faults are bad servers, and the check that has to catch each.
var faults = []struct {
	name, caught string
	fault        fault
}{
	{"no client id", "connect.reply", on(func(m message) { delete(m, "client") }, "connect")},
	{"session on WebSocket", "connect.reply", on(func(m message) { m["session"] = "s" }, "connect")},
	{"the same client id for all", "connect.ids", on(func(m message) { m["client"] = "one" }, "connect")},
	{"another code for bad requests", "connect.twice", closing(3503, "force disconnect")},
	{"another code for bad requests, first commands", "connect.first", closing(3500, "invalid token")},
	{"another code for frames", "frames.json.cut", closing(1008, "")},
	{"no reason", "connect.twice", fault{end: func(c ws.StatusCode, _ string) (ws.StatusCode, string) { return c, "" }}},
	{"a reason of its own", "connect.twice", fault{end: func(c ws.StatusCode, _ string) (ws.StatusCode, string) { return c, "go away" }}},
	{"a reason that is JSON", "closing.code", fault{end: func(c ws.StatusCode, _ string) (ws.StatusCode, string) { return c, `"over"` }}},
	{"another code of the backend", "closing.code", fault{end: func(c ws.StatusCode, r string) (ws.StatusCode, string) { return min(c, 4500), r }}},
	{"mistakes are ignored", "frames.json.text", dropCommands("hello")},
	{"a line break at the end of a frame", "replies.ids", fault{frame: func(f []byte) []byte { return append(f, '\n') }}},
	{"lines with spaces between values", "replies.ids", fault{frame: func(f []byte) []byte { return append(f, " {}"...) }}},
	{"bytes that are not UTF-8", "publish.echo", fault{frame: func(f []byte) []byte { return bytes.Replace(f, []byte("publish-echo"), []byte("publish\xffecho"), 1) }}},
	{"replies with other ids", "replies.ids", each(func(_ *link, m message) {
		if id, _ := m["id"].(float64); id > 1 {
			m["id"] = id - 1
		}
	})},
	{"a reply twice", "replies.batch", fault{messages: func(l *link, in []message) (out []message) {
		for _, m := range in {
			if out = append(out, m); m["unsubscribe"] != nil {
				out = append(out, m)
			}
		}
		return out
	}}},
	{"a reply is lost", "replies.batch", drop(func(l *link, m message) bool { return m["unsubscribe"] != nil && l.every("reply", 20) })},
	{"an answer to send", "replies.send", fault{messages: func(l *link, in []message) []message {
		if l.every("frame", 2) {
			return append([]message{{"id": 2.0, "error": message{"code": 108.0, "message": "not available"}}}, in...)
		}
		return in
	}, end: func(ws.StatusCode, string) (ws.StatusCode, string) { return 3501, "bad request" }}},
	{"no empty results", "unsubscribe.unknown", each(func(_ *link, m message) { delete(m, "unsubscribe") })},
	{"errors without text", "subscribe.twice", on(func(m message) { m["message"] = "" }, "error")},
	{"errors with another text", "subscribe.twice", on(func(m message) { m["message"] = "no" }, "error")},
	{"errors that are temporary", "subscribe.twice", on(func(m message) { m["temporary"] = true }, "error")},
	{"another error", "subscribe.twice", on(func(m message) { m["code"], m["message"] = 106.0, "limit exceeded" }, "error")},
	{"no pings", "pings.interval", drop(func(_ *link, m message) bool { return isPing(m) })},
	{"pings that come too often", "pings.interval", fault{messages: func(_ *link, in []message) (out []message) {
		for _, m := range in {
			if out = append(out, m); isPing(m) {
				out = append(out, message{lineKey: "{}"})
			}
		}
		return out
	}}},
	{"positioned without an epoch", "subscribe.result", on(func(m message) { delete(m, "epoch") }, "subscribe")},
	{"the epoch _", "subscribe.result", on(func(m message) { m["epoch"] = "_" }, "subscribe")},
	{"deltas that nobody asked for", "subscribe.result", on(func(m message) { m["delta"] = true }, "subscribe")},
	{"a name beside the number", "subscribe.numbers", each(func(_ *link, m message) {
		if p := inner(m, "push"); p["id"] != nil {
			p["channel"] = "c"
		}
	})},
	{"publications after unsubscribe", "unsubscribe.ends_delivery", dropCommandsBut("unsubscribe")},
	{"payloads are changed", "publish.payloads", on(func(m message) {
		if data, _ := m["data"].(json.RawMessage); string(data) == "null" {
			m["data"] = 0.0
		}
	}, "push", "pub")},
	{"no info of the publisher", "publish.echo", on(func(m message) { delete(m, "info") }, "push", "pub")},
	{"no echo", "publish.echo", drop(func(_ *link, m message) bool { return inner(m, "push", "pub", "info") != nil })},
	{"publications are lost", "delivery.order", drop(func(l *link, m message) bool { return inner(m, "push", "pub") != nil && l.every("pub", 30) })},
	{"publications come twice", "delivery.order", fault{messages: func(l *link, in []message) (out []message) {
		for _, m := range in {
			if out = append(out, m); inner(m, "push", "pub") != nil && l.every("pub", 30) {
				out = append(out, m)
			}
		}
		return out
	}}},
	{"publications change places", "delivery.order", swap(30)},
	{"publications before the reply", "delivery.after_reply", early()},
	{"presence lacks a client", "presence.who", on(func(m message) {
		for id := range m {
			delete(m, id)
			return
		}
	}, "presence", "presence")},
	{"presence counts one too many", "presence.stats", on(func(m message) { add(m, "num_clients", 1) }, "presence_stats")},
	{"joins for leaves", "joins.others", on(func(m message) {
		if v := m["leave"]; v != nil {
			delete(m, "leave")
			m["join"] = v
		}
	}, "push")},
	{"history from another end", "history.forward", on(func(m message) { slices.Reverse(pubs(m, "publications")) }, "history")},
	{"history with one too many", "history.since", on(func(m message) {
		if p := pubs(m, "publications"); len(p) > 0 {
			m["publications"] = append(p, p[0])
		}
	}, "history")},
	{"history is not reversed", "history.reverse", on(func(m message) { slices.Reverse(pubs(m, "publications")) }, "history")},
	{"history at another position", "history.position", on(func(m message) { add(m, "offset", 1) }, "history")},
	{"offsets from 0", "positions.count", on(func(m message) { add(m, "offset", -1) }, "push", "pub")},
	{"an epoch for each", "positions.count", on(func(m message) { m["epoch"] = fmt.Sprint(rand.Uint64()) }, "subscribe")},
	{"recovery gives one too few", "recovery.missed", on(func(m message) {
		if p := pubs(m, "publications"); len(p) > 0 {
			m["publications"] = p[1:]
		}
	}, "subscribe")},
	{"recovery in another order", "recovery.missed", on(func(m message) { slices.Reverse(pubs(m, "publications")) }, "subscribe")},
	{"recovery gives the offset of the top", "recovery.missed", on(func(m message) {
		if p := pubs(m, "publications"); len(p) > 0 {
			add(m, "offset", float64(len(p)))
		}
	}, "subscribe")},
	{"recovered without was_recovering", "recovery.nothing_missed", on(func(m message) { delete(m, "was_recovering") }, "subscribe")},
	{"a loss is hidden", "recovery.other_epoch", on(func(m message) { m["recovered"] = true }, "subscribe")},
	{"a loss is hidden when trimmed", "recovery.trimmed", on(func(m message) { m["recovered"] = true }, "subscribe")},
	{"a position ahead recovers", "recovery.ahead", on(func(m message) { m["recovered"] = true }, "subscribe")},
	{"the epoch is not compared", "recovery.sentinel", changeCommands("subscribe", func(m message) { delete(m, "epoch") })},
	{"positions are forgotten", "recovery.missed", changeCommands("subscribe", func(m message) { delete(m, "recover") })},
	{"the flag is not kept", "recovery.reject", changeCommands("subscribe", func(m message) { delete(m, "flag") })},
	{"a gap after recovery", "recovery.race", gaps(9)},
	{"cache mode gives nothing", "recovery.cache", on(func(m message) { delete(m, "publications") }, "subscribe")},
	{"patches against something else", "deltas.live", on(func(m message) {
		if data, _ := m["data"].(json.RawMessage); m["delta"] == nil {
			m["data"] = json.RawMessage(bytes.Replace(data, []byte("Viktor"), []byte("Victor"), 1))
		}
	}, "push", "pub")},
	{"data that is no string", "deltas.live", on(func(m message) {
		var text string
		if data, _ := m["data"].(json.RawMessage); m["delta"] == nil && json.Unmarshal(data, &text) == nil {
			m["data"] = json.RawMessage(text)
		}
	}, "push", "pub")},
	{"a publication is lost among deltas", "deltas.live", drop(func(l *link, m message) bool { return inner(m, "push", "pub") != nil && l.every("pub", 3) })},
	{"patches in history", "deltas.history", each(func(_ *link, m message) {
		for _, p := range pubs(inner(m, "history"), "publications") {
			p.(message)["delta"] = true
		}
	})},
	{"the first recovered is a patch", "deltas.recovery", each(func(_ *link, m message) {
		for _, p := range pubs(inner(m, "subscribe"), "publications") {
			p.(message)["delta"] = true
		}
	})},
	{"filters let everything through", "filters.live", changeCommands("subscribe", func(m message) { delete(m, "tf") })},
	{"filters are not looked at", "filters.invalid", changeCommands("subscribe", func(m message) { delete(m, "tf") })},
	{"filters forget neq", "filters.live", changeCommands("subscribe", func(m message) {
		for _, node := range pubs(inner(m, "tf"), "nodes") {
			if n := node.(message); n["cmp"] == "neq" {
				n["cmp"] = "eq"
			}
		}
	})},
	{"filtered publications are lost for recovery", "filters.recovery", on(func(m message) {
		if p := pubs(m, "publications"); len(p) > 1 {
			delete(m, "recovered")
		}
	}, "subscribe")},
	{"a key twice in the state", "maps.state", on(func(m message) {
		if s := pubs(m, "state"); len(s) > 0 {
			m["state"] = append(s, s[0])
		}
	}, "subscribe")},
	{"a key is missing in the state", "maps.pages", on(func(m message) {
		if s := pubs(m, "state"); len(s) > 1 {
			m["state"] = s[1:]
		}
	}, "subscribe")},
	{"pages move on", "maps.pages", each(func(l *link, m message) {
		if s := inner(m, "subscribe"); s["phase"] == 2.0 && l.every("page", 2) {
			add(s, "offset", 1)
		}
	})},
	{"removals are no removals", "maps.live", on(func(m message) {
		if m["removed"] == true {
			delete(m, "removed")
		}
	}, "push", "pub")},
	{"changes of a map are lost", "maps.live", drop(func(l *link, m message) bool { return inner(m, "push", "pub") != nil && l.every("pub", 2) })},
	{"changes of a map are not recovered", "maps.recovery", on(func(m message) { delete(m, "publications") }, "subscribe")},
	{"another error for a position that is gone", "maps.other_epoch", on(func(m message) { m["code"], m["message"] = 103.0, "permission denied" }, "error")},
	{"patches of a map against something else", "maps.deltas", on(func(m message) {
		if data, _ := m["data"].(json.RawMessage); m["delta"] == nil {
			m["data"] = json.RawMessage(bytes.Replace(data, []byte("Viktor"), []byte("Victor"), 1))
		}
	}, "push", "pub")},
	{"the first value of a key is a patch", "maps.deltas", on(func(m message) { m["delta"] = true }, "push", "pub")},
	{"values without versions", "poll.track", on(func(m message) { delete(m, "version") }, "push", "pub")},
	{"values of other keys", "poll.track", changeCommands("sub_refresh", func(m message) { m["channel"] = "elsewhere" })},
	{"the version that a client holds is not looked at", "poll.versions", on(func(m message) { add(m, "version", -1) }, "push", "pub")},
	{"untracked keys go on", "poll.untrack", changeCommands("sub_refresh", func(m message) {
		if m["type"] == 2.0 {
			m["untrack"] = []any{"other"}
		}
	})},
	{"another error for signatures", "poll.signature", on(func(m message) { m["code"], m["message"] = 107.0, "bad request" }, "error")},
	{"no session for one-way clients", "oneway.connect", on(func(m message) { delete(m, "session") }, "connect")},
	{"one-way clients are asked for pongs", "oneway.connect", on(func(m message) { m["pong"] = true }, "connect")},
	{"one-way publications are lost", "oneway.publications", drop(func(l *link, m message) bool { return m["pub"] != nil && l.every("pub", 10) })},
	{"one-way publications without a name", "oneway.publications", each(func(_ *link, m message) {
		if m["pub"] != nil {
			delete(m, "channel")
		}
	})},
	{"a one-way subscription goes on", "oneway.unsubscribe", drop(func(_ *link, m message) bool { return m["unsubscribe"] != nil })},
	{"no disconnect push", "oneway.disconnect", fault{messages: drop(func(_ *link, m message) bool { return m["disconnect"] != nil }).messages, end: func(ws.StatusCode, string) (ws.StatusCode, string) { return 1000, "" }}},
	{"the close has another code than the push", "oneway.disconnect", fault{end: func(_ ws.StatusCode, r string) (ws.StatusCode, string) { return 4000, r }}},
	{"a push before the refusal", "oneway.token", fault{frame: func(f []byte) []byte { return append([]byte("{\"message\":{\"data\":1}}\n"), f...) }}},
	{"no one-way pings", "oneway.pings", drop(func(_ *link, m message) bool { return isPing(m) })},
	{"SockJS closes without a reason", "sockjs.close", fault{frame: func(f []byte) []byte {
		if bytes.HasPrefix(f, []byte("c[")) {
			return []byte("c[4321]")
		}
		return f
	}}},
	{"SockJS begins with a message", "sockjs.frames", fault{frame: func(f []byte) []byte {
		if string(f) == "o" {
			return []byte("h")
		}
		return f
	}}},
	{"WebTransport ends without a push", "webtransport.disconnect", fault{end: func(ws.StatusCode, string) (ws.StatusCode, string) { return 1000, "" }}},
	{"WebTransport cuts messages", "webtransport.stream", fault{frame: func(f []byte) []byte {
		return slices.Concat(f[:len(f)/2], []byte("\n"), f[len(f)/2:])
	}}},
	{"an expiry without a time", "tokens.refresh", on(func(m message) { delete(m, "ttl") }, "connect")},
	{"refresh promises too much", "tokens.refresh", on(func(m message) { m["expires"], m["ttl"] = true, 999999.0 }, "refresh")},
	{"another error for expired tokens", "tokens.expired", on(func(m message) { m["code"], m["message"] = 101.0, "unauthorized" }, "error")},
	{"replies behind a connect error", "connect.error_ends_frame", fault{messages: func(_ *link, in []message) (out []message) {
		for _, m := range in {
			if out = append(out, m); m["error"] != nil {
				out = append(out, message{"id": 2.0, "unsubscribe": message{}})
			}
		}
		return out
	}}},
	{"the reply to connect is late", "connect.pipelined", fault{messages: func(_ *link, in []message) []message {
		slices.Reverse(in)
		return in
	}}},
	{"another unsubscribe code", "server.unsubscribe", on(func(m message) { m["code"] = 2500.0 }, "push", "unsubscribe")},
	{"subscribe pushes are lost", "server.subscribe", drop(func(_ *link, m message) bool { return inner(m, "push", "subscribe") != nil })},
	{"tags are lost", "server.publish", on(func(m message) { delete(m, "tags") }, "push", "pub")},
	{"too long names are taken", "limits.channel_name", on(func(m message) { m["code"], m["message"] = 102.0, "unknown channel" }, "error")},
	{"another code for large messages", "limits.message", closing(1002, "")},
	{"publications are lost at random", "random.turns", drop(func(l *link, m message) bool { return inner(m, "push", "pub") != nil && l.every("pub", 15) })},
	{"publications change places at random", "random.crowd", swap(25)},
	{"come back to a gap", "random.returns", on(func(m message) {
		if p := pubs(m, "publications"); len(p) > 1 {
			m["publications"] = p[:len(p)-1]
		}
	}, "subscribe")},
	{"a map forgets removals", "random.map", drop(func(_ *link, m message) bool { return at(m, "push", "pub", "removed") == true })},
}

// TestFaults: each bad server is caught by the check that is for it. With nothing wrong, the way to them changes nothing.
func TestFaults(t *testing.T) {
	t.Parallel()
	// Suites that judge a server by the transport of a check.
	suiteOf := func(o Options, address string) *suite {
		o.Encoding, o.Steps, o.URL, o.TLS = protocol.JSON, 60, address, &tls.Config{InsecureSkipVerify: true}
		s, err := newSuite(o)
		if err == nil {
			err = s.discover(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	o, oOften := start(t), start(t, often)
	base, baseOften := strings.TrimSuffix(o.URL, "websocket"), strings.TrimSuffix(oOften.URL, "websocket")
	plain, plainOften := suiteOf(o, o.URL), suiteOf(oOften, oOften.URL)
	uni, uniOften := suiteOf(o, base+"uni_websocket"), suiteOf(oOften, baseOften+"uni_websocket")
	sock, quic := suiteOf(o, "http"+strings.TrimPrefix(base, "ws")+"sockjs"), suiteOf(o, tunnel(t, o.URL))
	var runs atomic.Int64
	// behind judges a server behind a proxy.
	behind := func(t *testing.T, f fault, c check, want Status) Result {
		good, to := plain, o.URL
		switch often := ofPings.MatchString(c.name); {
		case often && c.needs&oneWay != 0:
			good, to = uniOften, uniOften.URL
		case often:
			good, to = plainOften, oOften.URL
		case c.needs&oneWay != 0:
			good, to = uni, uni.URL
		case c.needs&overSockJS != 0:
			good, to = sock, base+"sockjs"
		case c.needs&overQUIC != 0:
			good = quic
		}
		bad, server := *good, *good.server
		if want == Failed { // what the server does wrong comes, and what it leaves out does not
			server.Moment, server.Timeout = wait.Limit, time.Second
		}
		server.Run = fmt.Sprintf("fault-%d-", runs.Add(1)) // channels of its own
		bad.server, server.Dialer = &server, &talk.Dialer{Dialer: &wire.Dialer{Kind: good.server.Dialer.Kind, URL: proxy(t, to, f)}}
		switch good {
		case sock:
			server.Dialer.Over = talk.SockJS("http"+strings.TrimPrefix(server.Dialer.URL, "ws"), nil)
		case quic:
			var err error
			if server.Dialer, err = talk.NewDialer(tunnel(t, server.Dialer.URL), "", good.Encoding, good.TLS); err != nil {
				t.Error(err)
			}
		}
		return bad.judge(t.Context(), c)
	}
	byName := make(map[string]check)
	for _, c := range checks() {
		byName[c.name] = c
	}
	slots := make(chan struct{}, 32) // they mostly wait
	var all sync.WaitGroup
	try := func(name string, f fault, c check, want Status) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if r := behind(t, f, c, want); r.Status != want {
				t.Errorf("%s: %s has %s, expected %s: %s", name, c.name, r.Status, want, r.Text)
			}
		})
	}
	caught := make(map[string]check)
	for _, f := range faults {
		c, ok := byName[f.caught]
		if !ok {
			t.Errorf("there is no check %s", f.caught)
			continue
		}
		caught[f.caught] = c
		try(f.name, f.fault, c, Failed)
	}
	for _, c := range caught {
		try("nothing wrong", fault{}, c, Passed)
	}
	all.Wait()
}
