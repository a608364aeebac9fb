package api_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/server/internal/api"
)

// What a request can make of a few bytes is bounded in both encodings.
func TestElementsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		m                   message
		open, element, shut string // in JSON
		wire                string // an element in Protobuf
		n                   int
	}{
		{new(api.BroadcastRequest), `{"channels":[`, `""`, `]}`, "\x0a\x00", api.MaxElements},
		{new(api.BroadcastRequest), `{"channels":[`, `""`, `]}`, "\x0a\x00", api.MaxElements + 1},
		{new(api.DisconnectRequest), `{"whitelist":[`, `""`, `]}`, "\x22\x00", api.MaxElements + 1},
		{new(api.BatchRequest), `{"commands":[`, `{}`, `]}`, "\x0a\x00", api.MaxElements + 1},
		{new(api.PublishRequest), `{"tags":{`, `"":""`, `}}`, "\x2a\x00", api.MaxElements + 1},
	} {
		text := tt.open + strings.Repeat(tt.element+",", tt.n-1) + tt.element + tt.shut
		for encoding, err := range map[string]error{
			"JSON": tt.m.UnmarshalJSON([]byte(text)), "Protobuf": tt.m.UnmarshalProto([]byte(strings.Repeat(tt.wire, tt.n))),
		} {
			if (err == nil) != (tt.n == api.MaxElements) || err != nil && !strings.HasSuffix(err.Error(), "more than 1048576 elements") {
				t.Errorf("%T with %d elements in %s: %v", tt.m, tt.n, encoding, err)
			}
		}
	}
}

// Channels that share memory are none the less what was sent, whatever their number and
// length.
func TestChannelsShareMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		want := make([]string, random.IntN(1000))
		for i := range want {
			want[i] = strings.Repeat(string(rune('a'+random.IntN(1000))), random.IntN(20))
			if random.IntN(100) == 0 {
				want[i] = strings.Repeat("\"long\n", random.IntN(4000))
			}
		}
		list, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var fromJSON, fromProto api.BroadcastRequest
		if err := fromJSON.UnmarshalJSON([]byte(` {"channels": ` + string(list) + strings.Repeat(" ", random.IntN(2000)) + `}`)); err != nil {
			t.Fatal(err)
		}
		if err := fromProto.UnmarshalProto(fromJSON.AppendProto(nil)); err != nil {
			t.Fatal(err)
		}
		for _, got := range [][]string{fromJSON.Channels, fromProto.Channels} {
			if !slices.Equal(got, want) || cap(got) > 9*len(got)+16 {
				t.Fatalf("%d channels: got %d with room for %d", len(want), len(got), cap(got))
			}
		}
	}
}

// Errors name the member, the position and what was expected.
func TestErrorsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{"channel": 7}`:                      `JSON: offset 12, key "channel": a string is expected`,
		`{"channel":"a","version":-1}`:        `JSON: offset 27, key "version": an unsigned integer of 64 bits is expected`,
		`{"channel":"a","tags":[]}`:           `JSON: offset 22, key "tags": an object is expected`,
		`{"channel":"a","delta":"x"}`:         `JSON: offset 23, key "delta": true or false is expected`,
		`{"channel":"a","data":{"x": [1, }}}`: `JSON: offset 32, key "data": unexpected character`,
		`{"channel":"a"`:                      `JSON: offset 14, key "channel": ',' or '}' is expected`,
		`{"channel":"a"} x`:                   `JSON: more follows the value`,
	} {
		var r api.PublishRequest
		if err := r.UnmarshalJSON([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
