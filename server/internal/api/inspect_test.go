package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

func TestConnections(t *testing.T) {
	n := &apitest.Node{Found: inspect.Connections{More: true, List: []inspect.Connection{{
		Client: "c1", User: "ann", Node: "n1", Transport: "websocket", Protocol: "json", AppName: "js", AppVersion: "5", Addr: "10.0.0.1:1",
		ConnectedAt: time.UnixMilli(1700000000123), Latency: 7 * time.Millisecond, Queue: 5, Commands: 2,
		Labels: map[string]string{"plan": "free"}, Meta: []byte(`{"a":1}`),
		Token:    &channel.Token{ID: "t1", IssuedAt: 1700000000},
		Channels: map[string]inspect.Subscription{"news": {Source: 6, Positioned: true, Offset: 3, Epoch: "e", Token: &channel.Token{IssuedAt: 7}}},
	}, {Client: "c2", ConnectedAt: time.UnixMilli(1), Latency: -1}}}}
	e := newExecutor(n)
	for request, want := range map[string]string{
		`{}`:          "107",
		`{"limit":5}`: "107",
	} {
		if got := run(t, e, "connections", request); got != want || len(n.Calls()) > 0 {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
	got := run(t, e, "connections", `{"user":"ann","client":"c","channel":"ch","limit":7,"label_filter":{"op":"not","nodes":[{"key":"plan","cmp":"in","vals":["a","b"]}]}}`)
	for _, want := range []string{
		`"c1":{"app_name":"js","app_version":"5","transport":"websocket","protocol":"json","user":"ann","state":{"channels":{"news":{"source":6,"offset":3,"epoch":"e"}},"connection_token":{"uid":"t1","issued_at":1700000000},"subscription_tokens":{"news":{"issued_at":7}},"meta":{"a":1}},` +
			`"connected_at_ms":1700000000123,"ping_pong_latency_ms":7,"labels":{"plan":"free"},"node":"n1","addr":"10.0.0.1:1","queue":5,"commands":2}`,
		`"c2":{"app_name":"","app_version":"","transport":"","protocol":"","user":"","state":{"channels":{}},"connected_at_ms":1,"ping_pong_latency_ms":-1,"node":"","queue":0,"commands":0}`,
		`"more":true`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	want := `connections ann/c/ch 7 {"op":"not","nodes":[{"key":"plan","cmp":"in","vals":["a","b"]}]}`
	if calls := n.Calls(); len(calls) != 1 || calls[0] != want {
		t.Errorf("got %q, want %q", calls, want)
	}
	n.Err = fmt.Errorf("%w of node n2", gyro.ErrNoAnswer)
	if got := run(t, e, "connections", `{"channel":"news"}`); !strings.Contains(got, `"c1"`) || !strings.Contains(got, `"incomplete":"no answer of node n2"`) {
		t.Errorf("without a node: %s", got)
	}
	n.Err = fmt.Errorf("%w: the limit", gyro.ErrorBadRequest)
	if got := run(t, e, "connections", `{"channel":"news"}`); got != "107" {
		t.Error(got)
	}
	n.Err = fmt.Errorf("%w: %w \"x\": wrong", gyro.ErrorBadRequest, inspect.ErrExpression)
	if got := run(t, e, "connections", `{"expression":"x"}`); got != `107` {
		t.Error(got)
	}
	if _, err := e.Connections(t.Context(), &api.ConnectionsRequest{Expression: "x"}); err == nil || err.Error() != `107: bad request: expression "x": wrong` {
		t.Errorf("a wrong expression: %v", err)
	}
	n.Err = nil
	n.Calls()
	n.Found.Failed = "no such key"
	if got := run(t, e, "connections", `{"expression":"queue > 0"}`); !strings.Contains(got, `"failed":"no such key"`) {
		t.Error(got)
	}
	if calls := n.Calls(); len(calls) != 1 || calls[0] != "connections // 0 queue > 0" {
		t.Errorf("got %q", calls)
	}
	// An expression sees all channels, so that its answers would tell of those that a sender may not name.
	if got := run(t, e.With(newsAlone{}), "connections", `{"expression":"channels.exists(c, c.startsWith('s'))"}`); got != "103" || len(n.Calls()) > 0 {
		t.Errorf("a sender that may name some channels gets %s for an expression", got)
	}
	if got := run(t, e.With(newsAlone{}), "connections", `{"channel":"news"}`); got == "103" || len(n.Calls()) != 1 {
		t.Errorf("a sender that may name some channels gets %s for one of them", got)
	}
	n.Err = errors.New("broken")
	if got := run(t, e, "connections", `{"channel":"news"}`); got != "100" {
		t.Error(got)
	}
}

func TestUserStatus(t *testing.T) {
	n := new(apitest.Node)
	e := api.NewExecutor(api.Config{Node: n, Channels: apitest.Namespaces(), Statuses: apitest.Statuses{Node: n}})
	for method, c := range map[string]struct{ request, want, call string }{
		"update_user_status": {`{"users":["ann","bob"],"state":"away"}`, `{}`, "status update ann,bob away"},
		"get_user_status":    {`{"users":["ann","bobby"]}`, `{"statuses":[{"user":"ann","active":3},{"user":"bobby","active":5}]}`, "status get ann,bobby"},
		"delete_user_status": {`{"users":["ann"]}`, `{}`, "status delete ann"},
	} {
		n.Err = nil
		if got := run(t, e, method, c.request); got != c.want {
			t.Errorf("%s: got %s, want %s", method, got, c.want)
		}
		if calls := n.Calls(); len(calls) != 1 || calls[0] != c.call {
			t.Errorf("%s: called %q, want %q", method, calls, c.call)
		}
		n.Err = fmt.Errorf("%w: too many", api.ErrBadRequest)
		if got := run(t, e, method, c.request); got != "107" {
			t.Errorf("%s: got %s for what may not be asked", method, got)
		}
		n.Err = errors.New("Redis is gone")
		if got := run(t, e, method, c.request); got != "100" {
			t.Errorf("%s: got %s for a failure", method, got)
		}
		if got := run(t, newExecutor(new(apitest.Node)), method, c.request); got != "108" {
			t.Errorf("%s: got %s without a storage", method, got)
		}
		n.Calls()
	}
}

func TestFlight(t *testing.T) {
	n := &apitest.Node{Log: inspect.Log{More: true, From: time.UnixMilli(5), Events: []inspect.Event{
		{Time: time.UnixMilli(6), Node: "n1", Kind: inspect.Refused, Client: "c1", User: "ann", Addr: "10.0.0.1:1", Channel: "news",
			What: "subscribe refused", Text: "it is off", Key: "k", Code: 103},
		{Time: time.UnixMilli(7), Node: "n2", Kind: inspect.Recovered, Channel: "secret", Count: 9},
	}}}
	e := newExecutor(n)
	const refused = `{"time_ms":6,"kind":"refused","node":"n1","client":"c1","user":"ann","addr":"10.0.0.1:1","channel":"news","what":"subscribe refused","code":103,"reason":"it is off","key":"k"}`
	const rest = `"more":true,"complete_since_ms":5`
	want := `{"events":[` + refused + `,{"time_ms":7,"kind":"recovered","node":"n2","channel":"secret","count":9}],` + rest + `}`
	if got := run(t, e, "flight", `{"user":"ann","client":"c","channel":"news","since_ms":2,"limit":3,"nodes":true}`); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if calls := n.Calls(); len(calls) != 1 || calls[0] != "flight ann/c/news 3 true 1970-01-01 00:00:00.002 +0000 UTC" {
		t.Error(calls)
	}
	// Who may name some channels alone hears of these alone.
	if got := run(t, e.With(newsAlone{}), "flight", `{}`); got != `{"events":[`+refused+`],`+rest+`}` {
		t.Error(got)
	}
	n.Err = fmt.Errorf("%w of node n2", gyro.ErrNoAnswer)
	if got := run(t, e, "flight", `{}`); !strings.Contains(got, `"incomplete":"no answer of node n2"`) {
		t.Error(got)
	}
	n.Err = fmt.Errorf("%w: the limit", gyro.ErrorBadRequest)
	if got := run(t, e, "flight", `{}`); got != "107" {
		t.Error(got)
	}
}

func TestExplain(t *testing.T) {
	n := &apitest.Node{
		Found: inspect.Connections{List: []inspect.Connection{{Client: "c1", User: "ann", Node: "n1", Latency: -1, Queue: 7,
			Channels: map[string]inspect.Subscription{"news": {Positioned: true, Offset: 3, Epoch: "e"}, "full:a": {Positioned: true, Offset: 3, Epoch: "e"}}}}},
		Log: inspect.Log{Events: []inspect.Event{{Kind: inspect.Connected, Client: "c1", Text: "websocket"}, {Kind: inspect.Subscribed, Channel: "other"},
			{Kind: inspect.Subscribed, Channel: "full:a"}}},
		Stream: gyro.History{Top: gyro.StreamPosition{Offset: 5, Epoch: "e"}},
	}
	e := newExecutor(n)
	if got := run(t, e, "explain", `{"channel":"news"}`); got != "107" {
		t.Error(got)
	}
	got := run(t, e, "explain", `{"user":"ann","channel":"full:a","limit":9}`)
	for _, want := range []string{
		`"findings":[{"level":"problem","text":"the client is at offset 3, and the top of the stream is 5","client":"c1"},{"level":"notice","text":"7 bytes wait`,
		`"subscribe":{"decision":"refused","reason":"allow_subscribe_for_client is off in namespace full, and the client has no subscription token","key":"channel.namespaces[full].allow_subscribe_for_client","token":true,"namespace":"full","checks":[`,
		`{"text":"clients may subscribe","holds":false,"key":"channel.namespaces[full].allow_subscribe_for_client","value":"off"}`, `"history_size":"10"`,
		`"top":{"offset":5,"epoch":"e"}`, `"connections":{"c1":{`, `"kind":"connected"`, `"channel":"full:a"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(got, `"other"`) {
		t.Errorf("%s has events of another channel", got)
	}
	if calls := strings.Join(n.Calls(), "\n"); !strings.Contains(calls, "connections ann// 0") || !strings.Contains(calls, "flight ann// 9 true") ||
		!strings.Contains(calls, "flight ann//full:a 9 true") {
		t.Error(calls)
	}
	// That the stream has begun anew concerns all its subscribers.
	n.Log.Events = []inspect.Event{{Kind: inspect.NewEpoch, Channel: "full:a", What: "check", Text: "epoch a became e"}}
	if got := run(t, e, "explain", `{"user":"ann","channel":"full:a"}`); !strings.Contains(got, "the stream of full:a has recently begun anew 1 time, as a check showed") {
		t.Error(got)
	}
	n.Log.Events = nil
	// Who may name some channels alone hears of these alone.
	if got := run(t, e.With(newsAlone{}), "explain", `{"user":"ann"}`); strings.Contains(got, "full:a") || !strings.Contains(got, `"news"`) {
		t.Error(got)
	}
	if got := run(t, e.With(newsAlone{}), "explain", `{"user":"ann","channel":"full:a"}`); got != "103" {
		t.Error(got)
	}
	// A user who is not there may be one of those that nobody knows.
	n.Found, n.Log.Events = inspect.Connections{}, []inspect.Event{{Kind: inspect.Refused, What: "connection refused", Text: "no token"}, {Kind: inspect.Refused, User: "bob", Text: "of bob"}}
	if got := run(t, e, "explain", `{"user":"ann"}`); !strings.Contains(got, "recently 1 refusal of clients whose user is not known: connection refused: no token") || strings.Contains(got, "known: of bob") {
		t.Error(got)
	}
}

// newsAlone allows the channel news.
type newsAlone struct{}

func (newsAlone) Method(api.Method) error { return nil }
func (newsAlone) EveryChannel() error     { return api.ErrPermissionDenied }
func (newsAlone) Channel(ch string) error {
	if ch == "news" {
		return nil
	}
	return api.ErrPermissionDenied
}
