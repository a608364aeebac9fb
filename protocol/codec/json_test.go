package codec

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/protocol"
)

// commandLines are lines of clients; without a command they
// are malformed.
var commandLines = []struct {
	name string
	line string
	want *protocol.Command
}{
	{"pong", `{}`, &protocol.Command{}},
	{"null is a pong", `null`, &protocol.Command{}},
	{"blanks around", " \t{ \"id\" : 1 } \r", &protocol.Command{ID: 1}},
	{"connect", `{"id":1,"connect":{"name":"go"}}`, &protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{Name: "go"}}},
	{"unknown keys", `{"new":{"a":[1,{"b":null}]},"id":1,"x":"\u0041"}`, &protocol.Command{ID: 1}},
	{"key in other case", `{"ID":7,"Rpc":{"METHOD":"m"}}`, &protocol.Command{ID: 7, RPC: &protocol.RPCRequest{Method: "m"}}},
	{"escaped key", `{"\u0069d":7}`, &protocol.Command{ID: 7}},
	{"no field of that long a name", `{"` + strings.Repeat("ID", 30) + `":7}`, &protocol.Command{}},
	{"extra bytes", `{"id":1}} what [`, &protocol.Command{ID: 1}},
	{"another value", `{"id":1}{"id":2}`, &protocol.Command{ID: 1}},
	{"null for fields", `{"id":null,"connect":null,"rpc":{"method":null}}`, &protocol.Command{RPC: &protocol.RPCRequest{}}},
	{"null as payload", `{"rpc":{"data":null}}`, &protocol.Command{RPC: &protocol.RPCRequest{Data: []byte("null")}}},
	{"payload is kept", `{"rpc":{"data": { "a" : [1, 2e5] } }}`, &protocol.Command{RPC: &protocol.RPCRequest{Data: []byte(`{ "a" : [1, 2e5] }`)}}},
	{"null as list element", `{"subscribe":{"tf":{"nodes":[null,{"key":"k"}],"vals":[null]}}}`, &protocol.Command{
		Subscribe: &protocol.SubscribeRequest{Tf: &protocol.FilterNode{Nodes: []*protocol.FilterNode{{}, {Key: "k"}}, Vals: []string{""}}},
	}},
	{"null as map value", `{"connect":{"subs":{"c":null},"headers":{"h":null}}}`, &protocol.Command{
		Connect: &protocol.ConnectRequest{Subs: map[string]*protocol.SubscribeRequest{"c": {}}, Headers: map[string]string{"h": ""}},
	}},
	{"null and empty containers", `{"connect":{"subs":null,"headers":{}},"sub_refresh":{"track":[],"untrack":null}}`, &protocol.Command{
		Connect: &protocol.ConnectRequest{}, SubRefresh: &protocol.SubRefreshRequest{},
	}},
	{"escapes", `{"rpc":{"method":"\"\\\/\b\f\n\r\tä\u00e4\ud83d\ude00"}}`, &protocol.Command{RPC: &protocol.RPCRequest{Method: "\"\\/\b\f\n\r\tää😀"}}},
	{"lone surrogates", `{"rpc":{"method":"\ud83d-\ude00-\ud83d\ud83d\u0041"}}`, &protocol.Command{RPC: &protocol.RPCRequest{Method: "\ufffd-\ufffd-\ufffd\ufffdA"}}},
	{"last one counts", `{"id":1,"id":2}`, &protocol.Command{ID: 2}},
	{"largest numbers", `{"id":4294967295,"subscribe":{"offset":18446744073709551615,"flag":-9223372036854775808,"type":-2147483648}}`, &protocol.Command{
		ID: 1<<32 - 1, Subscribe: &protocol.SubscribeRequest{Offset: 1<<64 - 1, Flag: -1 << 63, Type: -1 << 31},
	}},
	{"negative zero", `{"history":{"limit":-0}}`, &protocol.Command{History: &protocol.HistoryRequest{}}},
	{"nested to the limit", `{"rpc":{"data":` + nested(510) + `}}`, &protocol.Command{RPC: &protocol.RPCRequest{Data: []byte(nested(510))}}},

	{"blank line", "", nil},
	{"only blanks", " \r", nil},
	{"no object", `[]`, nil},
	{"number", `1`, nil},
	{"string", `"{}"`, nil},
	{"not closed", `{"id":1`, nil},
	{"no value", `{"id":}`, nil},
	{"no colon", `{"id" 1}`, nil},
	{"trailing comma", `{"id":1,}`, nil},
	{"leading comma", `{,"id":1}`, nil},
	{"no comma", `{"id":1 "connect":{}}`, nil},
	{"key without quotes", `{id:1}`, nil},
	{"closed by another bracket", `{"x":[1}]`, nil},
	{"element missing", `{"x":[1,]}`, nil},
	{"number in quotes", `{"id":"1"}`, nil},
	{"fraction", `{"id":1.0}`, nil},
	{"exponent", `{"id":1e0}`, nil},
	{"leading zero", `{"id":01}`, nil},
	{"negative id", `{"id":-1}`, nil},
	{"negative zero as id", `{"id":-0}`, nil},
	{"id out of range", `{"id":4294967296}`, nil},
	{"offset out of range", `{"subscribe":{"offset":18446744073709551616}}`, nil},
	{"limit out of range", `{"history":{"limit":2147483648}}`, nil},
	{"number for a string", `{"rpc":{"method":1}}`, nil},
	{"number for true", `{"subscribe":{"recover":1}}`, nil},
	{"string for true", `{"subscribe":{"recover":"true"}}`, nil},
	{"string for an object", `{"rpc":"x"}`, nil},
	{"object for a list", `{"sub_refresh":{"untrack":{}}}`, nil},
	{"list for a map", `{"connect":{"headers":[]}}`, nil},
	{"bad literal", `{"x":nul}`, nil},
	{"bad number", `{"x":1.}`, nil},
	{"plus", `{"x":+1}`, nil},
	{"bad escape", `{"x":"\x"}`, nil},
	{"bad hex", `{"x":"\u12g4"}`, nil},
	{"cut escape", `{"x":"\u12`, nil},
	{"control character", "{\"x\":\"\t\"}", nil},
	{"not UTF-8 in a payload", "{\"rpc\":{\"data\":\"\xff\"}}", nil},
	{"not UTF-8 in a key", "{\"\xff\":1}", nil},
	{"not UTF-8 behind", "{} \xff", nil},
	{"surrogate as UTF-8", "{\"rpc\":{\"method\":\"\xed\xa0\x80\"}}", nil},
	{"nested too deeply", `{"rpc":{"data":` + nested(511) + `}}`, nil},
	{"nested far too deeply", `{"x":` + strings.Repeat(`[`, 100_000), nil},
	{"filter nested far too deeply", `{"subscribe":{"tf":` + strings.Repeat(`{"nodes":[`, 50_000), nil},
}

func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

func TestDecodeCommandLine(t *testing.T) {
	for _, tt := range commandLines {
		t.Run(tt.name, func(t *testing.T) {
			for _, tail := range []string{"", "\n", "\n{\"id\":9}\nnext"} {
				got := protocol.Command{ID: 77, Ping: &protocol.PingRequest{}} // to be reset
				if tt.line+tail == "" {
					continue
				}
				rest, err := For(protocol.JSON).DecodeCommand([]byte(tt.line+tail), &got)
				if tt.want == nil {
					if err == nil {
						t.Fatalf("accepted as %+v", got)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.TrimPrefix(tail, "\n"); string(rest) != want {
					t.Errorf("rest %q, want %q", rest, want)
				}
				if diff := cmp.Diff(tt.want, &got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestDecodeErrorsSayWhere(t *testing.T) {
	for line, want := range map[string]string{
		``:                          "empty frame",
		`{"id":"x"}`:                `JSON: offset 6, key "id": an integer is expected`,
		`{"id":-5}`:                 `JSON: offset 8, key "id": an unsigned integer of 32 bits is expected`,
		`{"rpc":{"method":5}}`:      `JSON: offset 17, key "method": a string is expected`,
		"{\"rpc\":{\"data\":\"\xff": `JSON: offset 16: invalid UTF-8`,
	} {
		var cmd protocol.Command
		if _, err := For(protocol.JSON).DecodeCommand([]byte(line), &cmd); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
	}
	var cmd protocol.Command
	_, err := For(protocol.JSON).DecodeCommand([]byte(`{"`+strings.Repeat("k", 10_000)+`":x}`), &cmd)
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("error of %d bytes: %v", len(err.Error()), err)
	}
}

func TestAppendJSONForms(t *testing.T) {
	tests := []struct {
		name  string
		reply protocol.Reply
		want  string
	}{
		{"empty results stay", protocol.Reply{ID: 5, RPC: &protocol.RPCResult{}}, `{"id":5,"rpc":{}}`},
		{"client info", protocol.Reply{Push: &protocol.Push{Join: &protocol.Join{Info: &protocol.ClientInfo{}}}}, `{"push":{"join":{"info":{"user":"","client":""}}}}`},
		{"presence", protocol.Reply{Presence: &protocol.PresenceResult{}}, `{"presence":{"presence":{}}}`},
		{"presence stats", protocol.Reply{PresenceStats: &protocol.PresenceStatsResult{}}, `{"presence_stats":{"num_clients":0,"num_users":0}}`},
		{"history", protocol.Reply{History: &protocol.HistoryResult{}}, `{"history":{"publications":[],"epoch":"","offset":0}}`},
		{"unsubscribe push", protocol.Reply{Push: &protocol.Push{Unsubscribe: &protocol.Unsubscribe{}}}, `{"push":{"unsubscribe":{"code":0,"reason":""}}}`},
		{"plain channel", protocol.Reply{Connect: &protocol.ConnectResult{Subs: map[string]*protocol.SubscribeResult{"news": {}}}}, `{"connect":{"subs":{"news":{}}}}`},
		{"nil elements", protocol.Reply{
			History: &protocol.HistoryResult{Publications: []*protocol.Publication{nil}},
			Connect: &protocol.ConnectResult{Subs: map[string]*protocol.SubscribeResult{"a": nil}},
		}, `{"connect":{"subs":{"a":{}}},"history":{"publications":[{}],"epoch":"","offset":0}}`},
		{"line breaks in a payload", protocol.Reply{RPC: &protocol.RPCResult{Data: []byte("{\r\n \"a\\n\":\n1}\n")}}, `{"rpc":{"data":{ "a\n":1}}}`},
		{"no UTF-8 in a string", protocol.Reply{Push: &protocol.Push{Channel: "a\xffb\xe2\x82"}}, "{\"push\":{\"channel\":\"a\ufffdb\ufffd\ufffd\"}}"},
		{"not in JSON", protocol.Reply{
			Connect: &protocol.ConnectResult{Dict: &protocol.Dictionary{Data: []byte("x"), DataB64: "eA=="}},
			Push:    &protocol.Push{Pub: &protocol.Publication{PrevData: []byte("x")}},
		}, `{"push":{"pub":{}},"connect":{"dict":{"data_b64":"eA=="}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := For(protocol.JSON).AppendReply(nil, &tt.reply)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if std, err := json.Marshal(&tt.reply); err != nil || !json.Valid(std) {
				t.Errorf("json.Marshal: %s, %v", std, err)
			}
		})
	}
}

func TestPayloadThatIsNotJSON(t *testing.T) {
	for _, payload := range []string{"x", "", " ", "{", "{}{}", "1 2", "\"\xff\"", "\"a\nb\"", "nul", "[1,]", nested(513), "\xef\xbb\xbf{}"} {
		if ValidJSON([]byte(payload)) {
			t.Errorf("%q is valid", payload)
		}
		if payload == "" {
			continue // means that there is no payload
		}
		reply := &protocol.Reply{Push: &protocol.Push{Channel: "c", Pub: &protocol.Publication{Data: []byte(payload)}}}
		got, err := For(protocol.JSON).AppendReply([]byte("before"), reply)
		if !errors.Is(err, ErrNotJSON) || string(got) != "before" {
			t.Errorf("%q: %q, %v", payload, got, err)
		}
		if _, err := For(protocol.Protobuf).AppendReply(nil, reply); err != nil {
			t.Errorf("%q: %v", payload, err)
		}
	}
}

func TestPushAndCommand(t *testing.T) {
	push := &protocol.Push{Channel: "c", Pub: &protocol.Publication{Data: []byte("1")}}
	cmd := &protocol.Command{ID: 2, Publish: &protocol.PublishRequest{Channel: "c", Data: []byte("[]")}}
	for _, e := range encodings {
		server, client := For(e), ForClient(e)
		if server.Encoding() != e || client.Encoding() != e {
			t.Fatalf("wrong codec for %s", e)
		}
		frame, err := server.AppendPush(nil, push)
		if err != nil {
			t.Fatal(err)
		}
		var gotPush protocol.Push
		if rest, err := client.DecodePush(frame, &gotPush); err != nil || len(rest) > 0 || !cmp.Equal(push, &gotPush) {
			t.Errorf("%s: %v, rest %q, %s", e, err, rest, cmp.Diff(push, &gotPush))
		}
		if frame, err = client.AppendCommand(nil, cmd); err != nil {
			t.Fatal(err)
		}
		var gotCmd protocol.Command
		if rest, err := server.DecodeCommand(frame, &gotCmd); err != nil || len(rest) > 0 || !cmp.Equal(cmd, &gotCmd) {
			t.Errorf("%s: %v, rest %q, %s", e, err, rest, cmp.Diff(cmd, &gotCmd))
		}
		for _, decode := range []func() error{
			func() error { _, err := server.DecodeCommand(nil, &gotCmd); return err },
			func() error { _, err := client.DecodeReply(nil, new(protocol.Reply)); return err },
			func() error { _, err := client.DecodePush(nil, &gotPush); return err },
		} {
			if decode() == nil {
				t.Errorf("%s: an empty frame is accepted", e)
			}
		}
	}
}
