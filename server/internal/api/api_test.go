package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/inspect"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/api/internal/apitest"
)

func newExecutor(node *apitest.Node) *api.Executor {
	return api.NewExecutor(api.Config{
		Node: node, Channels: apitest.Namespaces(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		RPC: map[string]api.RPCHandler{
			"echo":  func(_ context.Context, p []byte) ([]byte, error) { return p, nil },
			"deny":  func(context.Context, []byte) ([]byte, error) { return nil, &api.Error{Code: 403, Message: "no"} },
			"fail":  func(context.Context, []byte) ([]byte, error) { return nil, errors.New("secret detail") },
			"panic": func(context.Context, []byte) ([]byte, error) { panic("boom") },
		},
	})
}

// run decodes a request, executes it and returns the result's JSON, or the error
// as "code".
func run(t *testing.T, e *api.Executor, method, request string) string {
	t.Helper()
	m, ok := api.MethodByName(method)
	if !ok {
		t.Fatalf("no method %q", method)
	}
	req := m.NewRequest()
	if err := req.UnmarshalJSON([]byte(request)); err != nil {
		return "malformed"
	}
	res, err := e.Execute(t.Context(), req)
	if err != nil {
		return fmt.Sprint(api.AsError(err).Code)
	}
	out, err := res.AppendJSON(nil)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

type commandTest struct {
	name, method, request string
	node                  apitest.Node
	want                  string
	calls                 []string
}

func testCommands(t *testing.T, tests []commandTest) {
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.method+"/"+tt.name, func(t *testing.T) {
			if got := run(t, newExecutor(&tt.node), tt.method, tt.request); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if diff := cmp.Diff(tt.calls, tt.node.Calls()); diff != "" {
				t.Errorf("calls of the node (-want +got):\n%s", diff)
			}
		})
	}
}

var (
	errDown  = errors.New("backend is down")
	position = gyro.PublishResult{Position: gyro.StreamPosition{Offset: 12, Epoch: "kGqz"}}
)

func TestPublish(t *testing.T) {
	testCommands(t, []commandTest{
		{"position", "publish", `{"channel":"full:a","data":{"msg": "hi"}}`, apitest.Node{Result: position},
			`{"offset":12,"epoch":"kGqz"}`, []string{`publish full:a {"msg": "hi"}`}},
		{"no position", "publish", `{"channel":"a","data":1}`, apitest.Node{}, `{}`, []string{`publish a 1`}},
		{"null is data", "publish", `{"channel":"a","data":null}`, apitest.Node{}, `{}`, []string{`publish a null`}},
		{"base64 wins", "publish", `{"channel":"a","data":1,"b64data":"eyJ4IjoxfQ=="}`, apitest.Node{}, `{}`,
			[]string{`publish a {"x":1}`}},
		{"null request", "publish", `null`, apitest.Node{}, `107`, nil},
		{"empty channel before base64", "publish", `{"b64data":"!"}`, apitest.Node{}, `107`, nil},
		{"base64 before namespace", "publish", `{"channel":"no:a","b64data":"!"}`, apitest.Node{}, `107`, nil},
		{"base64 without padding", "publish", `{"channel":"a","b64data":"eyJ4IjoxfQ"}`, apitest.Node{}, `107`, nil},
		{"unknown namespace before data", "publish", `{"channel":"no:a"}`, apitest.Node{}, `102`, nil},
		{"map namespace", "publish", `{"channel":"map:a","data":1}`, apitest.Node{}, `107`, nil},
		{"shared poll namespace", "publish", `{"channel":"poll:a","data":1}`, apitest.Node{}, `107`, nil},
		{"stream namespace", "publish", `{"channel":"sub:a","data":1}`, apitest.Node{}, `{}`, []string{`publish sub:a 1`}},
		{"no data", "publish", `{"channel":"a"}`, apitest.Node{}, `107`, nil},
		{"any bytes by default", "publish", `{"channel":"a","b64data":"AAE="}`, apitest.Node{}, `{}`, []string{"publish a \x00\x01"}},
		{"json", "publish", `{"channel":"json:a","b64data":"MQ=="}`, apitest.Node{}, `{}`, []string{`publish json:a 1`}},
		{"json refuses bytes", "publish", `{"channel":"json:a","b64data":"AAE="}`, apitest.Node{}, `107`, nil},
		{"json refuses nothing", "publish", `{"channel":"json:a"}`, apitest.Node{}, `107`, nil},
		{"object", "publish", `{"channel":"object:a","data": {} }`, apitest.Node{}, `{}`, []string{`publish object:a {}`}},
		{"object with space", "publish", `{"channel":"object:a","b64data":"IHt9IA=="}`, apitest.Node{}, `{}`, []string{`publish object:a  {}`}},
		{"object refuses array", "publish", `{"channel":"object:a","data":[]}`, apitest.Node{}, `107`, nil},
		{"object refuses half", "publish", `{"channel":"object:a","b64data":"e30x"}`, apitest.Node{}, `107`, nil},
		{"binary takes nothing", "publish", `{"channel":"binary:a"}`, apitest.Node{}, `{}`, []string{`publish binary:a`}},
		{"broker failure", "publish", `{"channel":"a","data":1}`, apitest.Node{Err: errDown}, `100`, []string{`publish a 1`}},
		{"client error without meaning here", "publish", `{"channel":"a","data":1}`,
			apitest.Node{Err: protocol.ErrorPermissionDenied}, `100`, []string{`publish a 1`}},
	})
}

func TestPublishOptions(t *testing.T) {
	full := gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute, HistoryMetaTTL: time.Hour}
	all := full
	all.Tags, all.IdempotencyKey, all.Delta = map[string]string{"l": "en"}, "k", true
	all.Version, all.VersionEpoch = 18446744073709551615, "e"
	skip := gyro.PublishOptions{SkipHistory: true, HistoryMetaTTL: time.Hour}
	tests := map[string]gyro.PublishOptions{
		`{"channel":"full:a","data":1}`: full,
		`{"channel":"full:a","data":1,"tags":{"l":"en"},"idempotency_key":"k","delta":true,"version":18446744073709551615,"version_epoch":"e"}`: all,
		`{"channel":"full:a","data":1,"skip_history":true}`: skip,
		`{"channel":"delta:a","data":1}`:                    {HistorySize: 5, HistoryTTL: time.Second, Delta: true},
	}
	for request, want := range tests {
		node := &apitest.Node{}
		run(t, newExecutor(node), "publish", request)
		broadcast := strings.Replace(strings.Replace(request, `"channel":"`, `"channels":["`, 1), `:a"`, `:a"]`, 1)
		run(t, newExecutor(node), "broadcast", broadcast)
		if diff := cmp.Diff([]gyro.PublishOptions{want, want}, node.PublishOptions()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
}

func TestBroadcast(t *testing.T) {
	testCommands(t, []commandTest{
		{"no channels", "broadcast", `{"data":1}`, apitest.Node{}, `107`, nil},
		{"empty channels", "broadcast", `{"channels":[],"data":1}`, apitest.Node{}, `107`, nil},
		{"base64", "broadcast", `{"channels":["a"],"b64data":"!"}`, apitest.Node{}, `107`, nil},
		{"per channel", "broadcast", `{"channels":["full:a","","no:a","json:x","map:a","full:b"],"b64data":"AAE="}`,
			apitest.Node{Result: position, FailIn: "full:b"},
			`{"responses":[{"result":{"offset":12,"epoch":"kGqz"}},{"error":{"code":107,"message":"bad request"}},` +
				`{"error":{"code":102,"message":"unknown channel"}},{"error":{"code":107,"message":"bad request"}},` +
				`{"error":{"code":107,"message":"bad request"}},{"error":{"code":100,"message":"internal server error"}}]}`,
			[]string{"publish full:a,full:b \x00\x01"}},
		{"twice", "broadcast", `{"channels":["a","a"],"data":1}`, apitest.Node{}, `{"responses":[{"result":{}},{"result":{}}]}`,
			[]string{"publish a,a 1"}},
		{"nothing left", "broadcast", `{"channels":["no:a"],"data":1}`, apitest.Node{},
			`{"responses":[{"error":{"code":102,"message":"unknown channel"}}]}`, nil},
	})
}

// A broadcast over many channels goes to the node in order, each channel with the
// options of its own namespace.
func TestBroadcastOfManyChannels(t *testing.T) {
	node := &apitest.Node{Result: position, FailIn: "full:1"}
	req := &api.BroadcastRequest{Data: []byte("1")}
	prefixes := []string{"", "full:", "delta:", "no:"}
	var want []string
	for i := range 2500 {
		ch := prefixes[i%4] + strconv.Itoa(i)
		req.Channels = append(req.Channels, ch)
		if i%4 < 3 {
			want = append(want, ch)
		}
	}
	res, err := newExecutor(node).Broadcast(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range res.Responses {
		ok := api.PublishResponse{Result: &api.PublishResult{Offset: 12, Epoch: "kGqz"}}
		if i == 1 {
			ok = api.PublishResponse{Error: api.ErrInternal}
		} else if i%4 == 3 {
			ok = api.PublishResponse{Error: api.ErrUnknownChannel}
		}
		if diff := cmp.Diff(ok, r); diff != "" {
			t.Fatalf("response %d (-want +got):\n%s", i, diff)
		}
	}
	opts := node.PublishOptions()
	if diff := cmp.Diff(want, published(node)); diff != "" || len(opts) != len(want) {
		t.Fatalf("%d options, channels (-want +got):\n%s", len(opts), diff)
	}
	for i, ch := range want {
		if size := map[string]int{"fu": 10, "de": 5}[ch[:min(len(ch), 2)]]; opts[i].HistorySize != size {
			t.Fatalf("%s was published with %+v", ch, opts[i])
		}
	}
}

// published returns the channels that were published into.
func published(node *apitest.Node) (channels []string) {
	for _, c := range node.Calls() {
		channels = append(channels, strings.Split(strings.Fields(c)[1], ",")...)
	}
	return channels
}

// Publish commands go to the node together, but never past another command.
func TestBatchKeepsOrder(t *testing.T) {
	req, want := new(api.BatchRequest), []string(nil)
	for i := range 1000 {
		ch := strconv.Itoa(i)
		switch {
		case i%300 == 299:
			req.Commands = append(req.Commands, api.Command{Request: &api.PresenceStatsRequest{Channel: "full:" + ch}})
			want = append(want, "full:"+ch)
		case i%100 == 50:
			req.Commands = append(req.Commands, api.Command{Request: &api.PublishRequest{Channel: "no:" + ch}})
		default:
			req.Commands = append(req.Commands, api.Command{Request: &api.PublishRequest{
				Channel: ch, Data: []byte("1"), Options: &api.PublishOptions{IdempotencyKey: ch}}})
			want = append(want, ch)
		}
	}
	for _, req.Parallel = range []bool{false, true} {
		node := &apitest.Node{FailIn: "7"}
		res, err := newExecutor(node).Batch(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range res.Replies {
			switch {
			case i%300 == 299:
				if _, ok := r.Result.(*api.PresenceStatsResult); !ok {
					t.Fatalf("reply %d is %+v", i, r.Result)
				}
			case i == 7 && r.Result != api.ErrInternal, i%100 == 50 && r.Result != api.ErrUnknownChannel:
				t.Fatalf("reply %d is %+v", i, r.Result)
			case i != 7 && i%100 != 50:
				if _, ok := r.Result.(*api.PublishResult); !ok {
					t.Fatalf("reply %d is %+v", i, r.Result)
				}
			}
		}
		got := published(node)
		if req.Parallel { // the order of other commands is nobody's
			got = slices.DeleteFunc(got, func(ch string) bool { return strings.HasPrefix(ch, "full:") })
			want = slices.DeleteFunc(want, func(ch string) bool { return strings.HasPrefix(ch, "full:") })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("parallel %v (-want +got):\n%s", req.Parallel, diff)
		}
		for i, o := range node.PublishOptions() {
			if req.Parallel && o.IdempotencyKey != want[i] {
				t.Fatalf("publication %d has the key %q, want %q", i, o.IdempotencyKey, want[i])
			}
		}
	}
}

func TestClients(t *testing.T) {
	subscription := func(format string, args ...any) []string {
		return []string{"subscribe 42// " + fmt.Sprintf(format, args...)}
	}
	opts := func(o gyro.SubscribeOptions) string { return fmt.Sprintf("%+v", o) }
	testCommands(t, []commandTest{
		{"defaults of the namespace", "subscribe", `{"channel":"sub:a","user":"42"}`, apitest.Node{}, `{}`,
			subscription("sub:a %s", opts(gyro.SubscribeOptions{Presence: true, EmitJoinLeave: true,
				PushJoinLeave: true, Positioned: true, Recoverable: true, Source: 10}))},
		{"override off", "subscribe", `{"channel":"sub:a","user":"42","override":{"presence":{"value":false},"join_leave":{},` +
			`"force_recovery":{"value":null},"force_positioning":{"value":false},"force_push_join_leave":{"value":false}}}`,
			apitest.Node{}, `{}`, subscription("sub:a %s", opts(gyro.SubscribeOptions{Source: 10}))},
		{"override on", "subscribe", `{"channel":"a","user":"42","override":{"presence":{"value":true},"join_leave":null,` +
			`"force_recovery":{"value":true}},"label_filter":{"op":"x"},"all_users":true}`,
			apitest.Node{}, `{}`, subscription("a %s", opts(gyro.SubscribeOptions{Presence: true, Recoverable: true, Source: 10}))},
		{"data", "subscribe", `{"channel":"full:a","user":"42","expire_at":9223372036854775807,"info":{"a":1},"b64data":"MQ=="}`,
			apitest.Node{}, `{}`, subscription("full:a %s", opts(gyro.SubscribeOptions{ExpireAt: channel.FromUnix(9223372036854775807),
				ChanInfo: []byte(`{"a":1}`), Data: []byte("1"), Presence: true, HistoryMetaTTL: time.Hour,
				BatchMaxDelay: time.Second, BatchMaxSize: 5, Source: 10}))},
		{"namespace before base64", "subscribe", `{"channel":"no:a","b64data":"!"}`, apitest.Node{}, `102`, nil},
		{"empty channel", "subscribe", `{"user":"42"}`, apitest.Node{}, `107`, nil},
		{"base64 data", "subscribe", `{"channel":"a","b64data":"!"}`, apitest.Node{}, `107`, nil},
		{"base64 info", "subscribe", `{"channel":"a","b64info":"!"}`, apitest.Node{}, `107`, nil},
		{"expired is internal", "subscribe", `{"channel":"a","user":"42"}`, apitest.Node{Err: protocol.ErrorExpired}, `100`,
			subscription("a %s", opts(gyro.SubscribeOptions{Source: 10}))},

		{"all", "unsubscribe", `{"channel":"a","user":"42","client":"c","session":"s"}`, apitest.Node{}, `{}`, []string{"unsubscribe 42/c/s a <nil>"}},
		{"namespace", "unsubscribe", `{"channel":"no:a"}`, apitest.Node{}, `102`, nil},
		{"empty channel", "unsubscribe", `{"user":"42"}`, apitest.Node{}, `107`, nil},
		{"failure", "unsubscribe", `{"channel":"a"}`, apitest.Node{Err: errDown}, `100`, []string{"unsubscribe // a <nil>"}},

		{"default", "disconnect", `{"user":"42"}`, apitest.Node{}, `{}`, []string{"disconnect 42// []"}},
		{"anonymous", "disconnect", `{}`, apitest.Node{}, `{}`, []string{"disconnect // []"}},
		{"custom", "disconnect", `{"user":"42","whitelist":["a","b"],"disconnect":{}}`, apitest.Node{}, `{}`,
			[]string{"disconnect 42// [a b] disconnect 0:"}},
		{"null custom", "disconnect", `{"user":"42","disconnect":null}`, apitest.Node{}, `{}`, []string{"disconnect 42// []"}},
		{"code out of range", "disconnect", `{"disconnect":{"code":4294967296}}`, apitest.Node{}, `malformed`, nil},
		{"failure", "disconnect", `{"user":"42"}`, apitest.Node{Err: errDown}, `100`, []string{"disconnect 42// []"}},

		{"never", "refresh", `{"user":"42"}`, apitest.Node{}, `{}`, []string{"refresh 42// false 0"}},
		{"info", "refresh", `{"user":"42","expire_at":1,"info":{}}`, apitest.Node{}, `{}`, []string{"refresh 42// false 1 {}"}},
		{"expired", "refresh", `{"user":"42","expired":true,"expire_at":1,"info":1}`, apitest.Node{}, `{}`, []string{"refresh 42// true 1 1"}},
		{"failure", "refresh", `{}`, apitest.Node{Err: errDown}, `100`, []string{"refresh // false 0"}},
	})
}

// RecoverSince is a pointer: it needs a comparison of its own.
func TestRecoverSince(t *testing.T) {
	req := &api.SubscribeRequest{}
	if err := req.UnmarshalJSON([]byte(`{"recover_since":{"offset":18446744073709551615,"epoch":"e"}}`)); err != nil {
		t.Fatal(err)
	}
	if req.RecoverSince == nil || *req.RecoverSince != (api.StreamPosition{Offset: 18446744073709551615, Epoch: "e"}) {
		t.Errorf("got %v", req.RecoverSince)
	}
}

func TestChannels(t *testing.T) {
	stream := gyro.History{Top: gyro.StreamPosition{Offset: 3, Epoch: "e"}, Publications: []*gyro.Publication{
		{Offset: 2, Data: []byte(`{"a": 1}`), Tags: map[string]string{"l": "en"},
			Info: &gyro.ClientInfo{User: "42", Client: "c", ConnInfo: []byte(`{"n":1}`), ChanInfo: []byte(`[]`)}},
		{Offset: 3, Info: &gyro.ClientInfo{}},
	}}
	subscribers := map[string]int{"chat:a": 2, "chat:b": 0}
	who := map[string]*gyro.ClientInfo{"c": {User: "", Client: "c", ConnInfo: []byte(`{}`)}}
	both := []commandTest{}
	for _, m := range []string{"presence", "presence_stats", "history", "history_remove"} {
		both = append(both,
			commandTest{"empty channel", m, `{}`, apitest.Node{}, `107`, nil},
			commandTest{"namespace", m, `{"channel":"no:a"}`, apitest.Node{}, `102`, nil},
			commandTest{"off", m, `{"channel":"a"}`, apitest.Node{}, `108`, nil},
			commandTest{"type", m, `{"channel":1}`, apitest.Node{}, `malformed`, nil})
	}
	testCommands(t, append(both, []commandTest{
		{"who", "presence", `{"channel":"full:a"}`, apitest.Node{PresenceMap: who},
			`{"presence":{"c":{"user":"","client":"c","conn_info":{}}}}`, []string{"presence full:a"}},
		{"nobody", "presence", `{"channel":"full:a"}`, apitest.Node{}, `{"presence":{}}`, []string{"presence full:a"}},
		{"failure", "presence", `{"channel":"full:a"}`, apitest.Node{Err: errDown}, `100`, []string{"presence full:a"}},
		{"binary info", "presence", `{"channel":"full:a"}`, apitest.Node{PresenceMap: map[string]*gyro.ClientInfo{"c": {ChanInfo: []byte{1}}}},
			`chan_info: payload is not valid JSON`, []string{"presence full:a"}},
		{"counts", "presence_stats", `{"channel":"full:a"}`, apitest.Node{Stats: gyro.PresenceStats{Clients: 3, Users: 2}},
			`{"num_clients":3,"num_users":2}`, []string{"presence_stats full:a"}},
		{"nobody", "presence_stats", `{"channel":"full:a"}`, apitest.Node{}, `{"num_clients":0,"num_users":0}`, []string{"presence_stats full:a"}},
		{"failure", "presence_stats", `{"channel":"full:a"}`, apitest.Node{Err: errDown}, `100`, []string{"presence_stats full:a"}},

		{"size alone", "history", `{"channel":"size:a"}`, apitest.Node{}, `108`, nil},
		{"ttl alone", "history", `{"channel":"ttl:a"}`, apitest.Node{}, `108`, nil},
		{"all", "history", `{"channel":"full:a","limit":-1}`, apitest.Node{Stream: stream},
			`{"publications":[{"data":{"a": 1},"info":{"user":"42","client":"c","conn_info":{"n":1},"chan_info":[]},"offset":2,"tags":{"l":"en"}},` +
				`{"info":{"user":"","client":""},"offset":3}],"epoch":"e","offset":3}`, []string{"history full:a all -1 false 1h0m0s"}},
		{"empty", "history", `{"channel":"delta:a"}`, apitest.Node{}, `{"publications":[],"epoch":"","offset":0}`, []string{"history delta:a all 0 false 0s"}},
		{"since reverse", "history", `{"channel":"full:a","limit":10,"since":{"offset":2},"reverse":true}`, apitest.Node{},
			`{"publications":[],"epoch":"","offset":0}`, []string{"history full:a {2 } 10 true 1h0m0s"}},
		{"since nothing", "history", `{"channel":"delta:a","since":{}}`, apitest.Node{},
			`{"publications":[],"epoch":"","offset":0}`, []string{"history delta:a {0 } 0 false 0s"}},
		{"reverse from 0", "history", `{"channel":"full:a","since":{"epoch":"e"},"reverse":true}`, apitest.Node{}, `107`, nil},
		{"epoch", "history", `{"channel":"delta:a","since":{"epoch":"x"}}`, apitest.Node{Err: fmt.Errorf("read: %w", protocol.ErrorUnrecoverablePosition)},
			`112`, []string{"history delta:a {0 x} 0 false 0s"}},
		{"failure", "history", `{"channel":"delta:a"}`, apitest.Node{Err: errDown}, `100`, []string{"history delta:a all 0 false 0s"}},
		{"limit out of range", "history", `{"channel":"delta:a","limit":2147483648}`, apitest.Node{}, `malformed`, nil},
		{"binary", "history", `{"channel":"delta:a"}`, apitest.Node{Stream: gyro.History{Publications: []*gyro.Publication{{Data: []byte("\xff")}}}},
			`data: payload is not valid JSON`, []string{"history delta:a all 0 false 0s"}},

		{"done", "history_remove", `{"channel":"full:a"}`, apitest.Node{}, `{}`, []string{"history_remove full:a"}},
		{"failure", "history_remove", `{"channel":"full:a"}`, apitest.Node{Err: errDown}, `100`, []string{"history_remove full:a"}},

		{"all", "channels", `{}`, apitest.Node{Subscribers: subscribers}, `{"channels":{"chat:a":{"num_clients":2}}}`, []string{"channels"}},
		{"pattern", "channels", `{"pattern":"{chat,x}:?"}`, apitest.Node{Subscribers: subscribers}, `{"channels":{"chat:a":{"num_clients":2}}}`, []string{"channels {chat,x}:?"}},
		{"none", "channels", `{"pattern":"x*"}`, apitest.Node{}, `{"channels":{}}`, []string{"channels x*"}},
		{"malformed", "channels", `{"pattern":"[a"}`, apitest.Node{Err: fmt.Errorf("%w: pattern", protocol.ErrorBadRequest)}, `100`, []string{"channels [a"}},
		{"failure", "channels", `{}`, apitest.Node{Err: context.DeadlineExceeded}, `100`, []string{"channels"}},
		{"a silent node", "channels", `{}`, apitest.Node{Subscribers: subscribers, Err: fmt.Errorf("%w of node b (n2)", gyro.ErrNoAnswer)},
			`{"channels":{"chat:a":{"num_clients":2}},"incomplete":"no answer of node b (n2)"}`, []string{"channels"}},
		{"failure with an answer", "channels", `{}`, apitest.Node{Subscribers: subscribers, Err: errDown}, `100`, []string{"channels"}},
	}...))
}

func TestInfoAndRPC(t *testing.T) {
	nodes := []gyro.NodeInfo{
		{UID: "u", Name: "n", Version: "1", NumClients: 1, NumUsers: 2, NumSubs: 3, NumChannels: 4, Uptime: 5 * time.Second,
			Process: inspect.Process{CPU: 112.5, RSS: 1 << 40}}, {},
	}
	testCommands(t, []commandTest{
		{"nodes", "info", `{"x":1}`, apitest.Node{Cluster: nodes},
			`{"nodes":[{"uid":"u","name":"n","version":"1","num_clients":1,"num_users":2,"num_channels":4,"uptime":5,"num_subs":3,"process":{"cpu":112.5,"rss":1099511627776}},` +
				`{"uid":"","name":"","version":"","num_clients":0,"num_users":0,"num_channels":0,"num_subs":0}]}`, []string{"info"}},
		{"failure", "info", `{}`, apitest.Node{Err: errDown}, `100`, []string{"info"}},
		{"empty", "rpc", `{}`, apitest.Node{}, `107`, nil},
		{"unknown", "rpc", `{"method":"x"}`, apitest.Node{}, `104`, nil},
		{"echo", "rpc", `{"method":"echo","params":{"a": [1]}}`, apitest.Node{}, `{"data":{"a": [1]}}`, nil},
		{"no params", "rpc", `{"method":"echo"}`, apitest.Node{}, `{}`, nil},
		{"own error", "rpc", `{"method":"deny"}`, apitest.Node{}, `403`, nil},
		{"failure", "rpc", `{"method":"fail"}`, apitest.Node{}, `100`, nil},
		{"panic", "rpc", `{"method":"panic"}`, apitest.Node{}, `100`, nil},
	})
}

func TestBatch(t *testing.T) {
	testCommands(t, []commandTest{
		{"nothing", "batch", `{}`, apitest.Node{}, `{}`, nil},
		{"no commands", "batch", `{"commands":[]}`, apitest.Node{}, `{}`, nil},
		{"sequential", "batch", `{"commands":[{"publish":{"channel":"a","data":1}},{"disconnect":{"user":"x"}},` +
			`{"publish":{"channel":"no:a"}},{"info":{}}]}`, apitest.Node{Result: position},
			`{"replies":[{"publish":{"offset":12,"epoch":"kGqz"}},{"disconnect":{}},{"error":{"code":102,"message":"unknown channel"}},` +
				`{"info":{"nodes":[]}}]}`, []string{"publish a 1", "disconnect x// []", "info"}},
		{"no command", "batch", `{"commands":[null,{},{"x":1},{"block_user":{}},{"batch":{"commands":[]}},{"info":null}]}`, apitest.Node{},
			`{"replies":[{"error":{"code":107,"message":"bad request"}},` + strings.TrimSuffix(strings.Repeat(
				`{"error":{"code":104,"message":"not found"}},`, 5), ",") + `]}`, nil},
		{"several members", "batch", `{"commands":[{"info":{},"publish":{"channel":"a","data":1},"broadcast":{}},{"publish":{},"publish":null,"info":{}}]}`,
			apitest.Node{}, `{"replies":[{"publish":{}},{"info":{"nodes":[]}}]}`, []string{"publish a 1", "info"}},
		{"wrong type inside", "batch", `{"commands":[{"publish":{"channel":1}}]}`, apitest.Node{}, `malformed`, nil},
		{"wrong element", "batch", `{"commands":[1]}`, apitest.Node{}, `malformed`, nil},
		{"later list wins", "batch", `{"commands":[{"info":{}}],"commands":null}`, apitest.Node{}, `{}`, nil},
	})
	if _, err := newExecutor(&apitest.Node{}).Batch(t.Context(), &api.BatchRequest{Commands: []api.Command{{Request: &api.BatchRequest{}}}}); err != nil {
		t.Error(err)
	}
}

func TestBatchParallel(t *testing.T) {
	var running, most atomic.Int64
	release := make(chan struct{})
	var once sync.Once
	node := &apitest.Node{Hook: func() {
		n := running.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n == 1024 {
			once.Do(func() { close(release) })
		}
		<-release
		running.Add(-1)
	}}
	req := &api.BatchRequest{Parallel: true}
	for i := range 1500 {
		req.Commands = append(req.Commands, api.Command{Request: &api.PresenceStatsRequest{
			Channel: []string{"full:a", "no:a"}[i%7/6]}})
	}
	res, err := newExecutor(node).Batch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range res.Replies {
		if (r.Result == api.ErrUnknownChannel) != (i%7 == 6) {
			t.Fatalf("reply %d is %+v: not in the order of the commands", i, r)
		}
	}
	if most.Load() != 1024 {
		t.Errorf("%d commands ran at a time, want 1024", most.Load())
	}
}

func TestMethods(t *testing.T) {
	for _, m := range api.Methods() {
		request := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", m.NewRequest()), "*api."))
		if byName, ok := api.MethodByName(m.String()); !ok || byName != m || request != strings.ReplaceAll(m.String(), "_", "")+"request" {
			t.Errorf("%s is not consistent: its request is a %s", m, request)
		}
	}
	if api.Method(200).String() != "unknown" {
		t.Error("a method out of range has a name")
	}
}

// The caller is told which nodes have not answered; of other failures nothing.
func TestNodesThatDoNotAnswerAreNamed(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("%w of node b (name): context deadline exceeded", gyro.ErrNoAnswer): "internal server error: no answer of node b (name): context deadline exceeded",
		errDown: "internal server error",
	} {
		e := newExecutor(&apitest.Node{Err: err})
		for method, request := range map[string]string{
			"disconnect": `{"user":"u"}`, "unsubscribe": `{"user":"u","channel":"a"}`, "subscribe": `{"user":"u","channel":"a"}`,
			"refresh": `{"user":"u"}`, "channels": `{}`,
		} {
			m, _ := api.MethodByName(method)
			req := m.NewRequest()
			if err := req.UnmarshalJSON([]byte(request)); err != nil {
				t.Fatal(err)
			}
			_, got := e.Execute(t.Context(), req)
			if a := api.AsError(got); got == nil || a.Code != 100 || a.Message != want {
				t.Errorf("%s: %v, want %s", method, got, want)
			}
		}
	}
}
