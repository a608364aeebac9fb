package expression

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
)

func ann() *inspect.Connection {
	c := &inspect.Connection{
		Client: "c1", User: "ann", Node: "n1", Addr: "10.0.0.1:1", Transport: "websocket", Protocol: "json", AppName: "js", AppVersion: "5.2",
		ConnectedAt: time.Now().Add(-time.Hour), Latency: 7 * time.Millisecond, Queue: 3, Commands: 1, Labels: map[string]string{"plan": "free"},
		Meta: []byte(`{"roles":["admin"],"age":41,"on":true}`), Token: &channel.Token{ID: "t1", IssuedAt: 1700000000},
		Channels: make(map[string]inspect.Subscription),
	}
	c.Channels["news"] = inspect.Subscription{Source: 6, Positioned: true, Offset: 9, Epoch: "e"}
	c.Channels["chat:1"] = inspect.Subscription{Source: 3, ServerSide: true, Token: &channel.Token{ID: "s1"}}
	return c
}

func TestConditions(t *testing.T) {
	other := &inspect.Connection{Client: "c2", Latency: -1}
	for text, want := range map[string]string{
		`user == 'ann' && client == 'c1' && node == 'n1' && transport == 'websocket' && protocol == 'json'`:         "c1",
		`app_name == 'js' && app_version.startsWith('5.') && addr.startsWith('10.')`:                                "c1",
		`'admin' in meta.roles && meta.age > 40`:                                                                    "c1",
		`has(meta.on) && meta.on`:                                                                                   "c1",
		`'plan' in labels && labels.plan == 'free'`:                                                                 "c1",
		`channels.exists(ch, ch.startsWith('chat:') && channels[ch].server_side && channels[ch].token.uid == 's1')`: "c1",
		`'news' in channels && channels.news.offset == 9 && channels.news.source == 6`:                              "c1",
		`connection_token.?uid.orValue('') == 't1'`:                                                                 "c1",
		`has(connection_token.issued_at) && connection_token.issued_at < 1800000000`:                                "c1",
		`now_ms - connected_at_ms >= 3600000 && ping_pong_latency_ms == 7 && queue == 3 && commands == 1`:           "c1",
		`ping_pong_latency_ms == -1`:                                                                                "c2",
		`size(channels) == 0`:                                                                                       "c2",
		`user.matches('^(ann)?$')`:                                                                                  "c1 c2",
		`!has(meta.roles)`:                                                                                          "c2",
		`size(labels) + queue == 4 `:                                                                                "c1",
		`false`:                                                                                                     "",
	} {
		condition, err := Compile(text)
		if strings.Contains(text, ".?") { // optional values are not a part of the language
			if err == nil {
				t.Errorf("%s compiles", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, c := range []*inspect.Connection{ann(), other} {
			if yes, err := condition(t.Context(), c); err != nil {
				// What only one of them has.
				if !strings.Contains(err.Error(), "no such key") {
					t.Errorf("%s: %v", text, err)
				}
			} else if yes {
				got = append(got, c.Client)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %q, want %q", text, got, want)
		}
	}
}

func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		`user`:                           `"user" is of the type string, and has to be true or false`,
		`user ==`:                        `"user ==": line 1, column 8: Syntax error`,
		"user == 'a' &&\n nobody":        `line 2, column 2: undeclared reference to 'nobody'`,
		`user == 1`:                      `found no matching overload`,
		strings.Repeat("x", MaxLength+1): `it has 4097 bytes, which is more than 4096`,
		strings.Repeat("(", 400):         `(((("…: expression recursion limit exceeded: 250`,
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`labels.nothing == ''`: `"labels.nothing == ''" for client c1: no such key: nothing`,
		`meta.age`:             `is of the type double, and has to be true or false`,
		`channels.all(a, channels.all(b, channels.all(c, channels.all(d, a + b + c + d != ''))))`: `cost limit exceeded`,
	} {
		condition, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		c := ann()
		for i := range 30 {
			c.Channels[strings.Repeat("x", i)] = inspect.Subscription{}
		}
		if yes, err := condition(t.Context(), c); yes || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, yes, err, want)
		}
	}
	broken := ann()
	broken.Meta = []byte("{")
	condition, err := Compile(`meta.on`)
	if err != nil {
		t.Fatal(err)
	}
	if yes, err := condition(t.Context(), broken); yes || err == nil {
		t.Errorf("meta that is not JSON: %v, %v", yes, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	endless, err := Compile(`channels.all(a, channels.all(b, a + b != 'never'))`)
	if err != nil {
		t.Fatal(err)
	}
	many := ann()
	for i := range 60 {
		many.Channels[strings.Repeat("y", i)] = inspect.Subscription{}
	}
	if yes, err := endless(ended, many); yes || err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("after its time: %v, %v", yes, err)
	}
}

func BenchmarkCondition(b *testing.B) {
	condition, err := Compile(`'plan' in labels && labels.plan == 'free' && 'admin' in meta.roles`)
	if err != nil {
		b.Fatal(err)
	}
	c := ann()
	b.ReportAllocs()
	for b.Loop() {
		if yes, err := condition(b.Context(), c); !yes || err != nil {
			b.Fatal(yes, err)
		}
	}
}

// However often an expression names meta and channels, they are made once for a connection.
func TestVariablesAreMadeOnce(t *testing.T) {
	once, often := `meta.on && size(channels) > 0`, strings.Repeat(`meta.on && size(channels) > 0 && `, 100)+`true`
	allocated := func(text string) float64 {
		condition, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		c := ann()
		for i := range 100 {
			c.Channels[strings.Repeat("x", i)] = inspect.Subscription{}
		}
		return testing.AllocsPerRun(100, func() {
			if yes, err := condition(t.Context(), c); err != nil || !yes {
				t.Fatal(yes, err)
			}
		})
	}
	if a, b := allocated(once), allocated(often); b > 3*a {
		t.Errorf("%.0f allocations if they are named once, %.0f if 100 times", a, b)
	}
}
