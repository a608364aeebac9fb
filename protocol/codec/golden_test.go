package codec

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/protocol"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var goldenReplies = []struct {
	name  string
	reply protocol.Reply
	json  string
	proto string
}{
	{"ping", protocol.Reply{}, `{}`, "00"},
	{"publish result", protocol.Reply{ID: 3, Publish: &protocol.PublishResult{}}, `{"id":3,"publish":{}}`, "04 08 03 42 00"},
	{
		"error", protocol.Reply{ID: 2, Error: protocol.ErrorPermissionDenied},
		`{"id":2,"error":{"code":103,"message":"permission denied"}}`,
		"19 08 02 12 15 08 67 12 11 70 65 72 6d 69 73 73 69 6f 6e 20 64 65 6e 69 65 64",
	},
	{
		"publication",
		protocol.Reply{Push: &protocol.Push{Channel: "news", Pub: &protocol.Publication{Data: []byte(`{"a":1}`), Offset: 5}}},
		`{"push":{"channel":"news","pub":{"data":{"a":1},"offset":5}}}`,
		"15 22 13 12 04 6e 65 77 73 22 0b 22 07 7b 22 61 22 3a 31 7d 30 05",
	},
	{
		"connect result",
		protocol.Reply{ID: 1, Connect: &protocol.ConnectResult{Client: "0f1a", Version: "1.0.0", Ping: 25, Pong: true}},
		`{"id":1,"connect":{"client":"0f1a","version":"1.0.0","ping":25,"pong":true}}`,
		"15 08 01 2a 11 0a 04 30 66 31 61 12 05 31 2e 30 2e 30 38 19 40 01",
	},
	{
		"subscribe result",
		protocol.Reply{ID: 2, Subscribe: &protocol.SubscribeResult{Recoverable: true, Epoch: "kQnB", Offset: 7, Positioned: true}},
		`{"id":2,"subscribe":{"recoverable":true,"epoch":"kQnB","offset":7,"positioned":true}}`,
		"10 08 02 32 0c 18 01 32 04 6b 51 6e 42 48 07 50 01",
	},
	{
		"publication of a client",
		protocol.Reply{Push: &protocol.Push{Channel: "chat:1", Pub: &protocol.Publication{
			Data: []byte(`{"t":"hi"}`), Info: &protocol.ClientInfo{User: "7", Client: "9c"}, Offset: 8,
		}}},
		`{"push":{"channel":"chat:1","pub":{"data":{"t":"hi"},"info":{"user":"7","client":"9c"},"offset":8}}}`,
		"23 22 21 12 06 63 68 61 74 3a 31 22 17 22 0a 7b 22 74 22 3a 22 68 69 22 7d 2a 07 0a 01 37 12 02 39 63 30 08",
	},
	{
		"disconnect push",
		protocol.Reply{Push: &protocol.Push{Disconnect: &protocol.Disconnect{Code: 3001, Reason: "shutdown"}}},
		`{"push":{"disconnect":{"code":3001,"reason":"shutdown"}}}`,
		"11 22 0f 5a 0d 08 b9 17 12 08 73 68 75 74 64 6f 77 6e",
	},
	{"rpc result", protocol.Reply{ID: 8, RPC: &protocol.RPCResult{Data: []byte("3")}}, `{"id":8,"rpc":{"data":3}}`, "07 08 08 6a 03 0a 01 33"},
}

func TestReplyBytes(t *testing.T) {
	for _, tt := range goldenReplies {
		t.Run(tt.name, func(t *testing.T) {
			for e, want := range map[protocol.Encoding][]byte{protocol.JSON: []byte(tt.json), protocol.Protobuf: unhex(t, tt.proto)} {
				got, err := For(e).AppendReply([]byte("x"), &tt.reply)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got[1:])); diff != "" {
					t.Errorf("%s (-want +got):\n%s", e, diff)
				}
				var back protocol.Reply
				rest, err := ForClient(e).DecodeReply(want, &back)
				if err != nil || len(rest) != 0 {
					t.Fatalf("%s: %v, rest %q", e, err, rest)
				}
				if diff := cmp.Diff(&tt.reply, &back); diff != "" {
					t.Errorf("%s (-want +got):\n%s", e, diff)
				}
			}
		})
	}
}
