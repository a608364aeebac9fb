package connkind

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/internal/hub"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
)

// framer is one of nothing.
type framer struct{ e protocol.Encoding }

func (f *framer) Encoding() protocol.Encoding { return f.e }
func (f *framer) Headroom() int               { return 0 }
func (f *framer) Costly() bool                { return false }
func (f *framer) Frame(buf []byte) []byte     { return buf }

var (
	jsonFramer     = &framer{protocol.JSON}
	protobufFramer = &framer{protocol.Protobuf}
)

// Connections share a kind if all that it says is the same, and only then.
func TestKinds(t *testing.T) {
	var all Kinds
	seen := make(map[*Kind]transport.Info)
	for _, info := range []transport.Info{
		{Name: "a", Framer: jsonFramer},
		{Name: "b", Framer: jsonFramer},
		{Name: "a", Framer: protobufFramer},
		{Name: "a", Framer: jsonFramer, NativePing: true},
		{Name: "a", Framer: jsonFramer, Mode: transport.Emulated},
		{Name: "a", Framer: jsonFramer, Mode: transport.Poll},
		{Name: "a", Framer: jsonFramer, Mode: transport.OneWay},
		{Name: "a", Framer: jsonFramer, Mode: transport.OneWay, DisconnectPush: true},
		{Name: "a", Framer: jsonFramer, Mode: transport.OneWay, Bookmarks: 100},
		{Name: "a", Framer: jsonFramer, Mode: transport.OneWay, Bookmarks: 200},
		{Name: "a", Framer: jsonFramer, Mode: transport.OneWay, Brief: true},
	} {
		k := all.Of(&info)
		if other, ok := seen[k]; ok {
			t.Errorf("%+v has the kind of %+v", info, other)
		}
		seen[k] = info
		for other, i := range seen {
			if same := i.Framer == info.Framer && i.Name == info.Name; (other.Framer == k.Framer) != same {
				t.Errorf("%+v and %+v: one framer: %v", info, i, !same)
			}
		}
		again := info
		again.RemoteAddr, again.Connect = "x", new(protocol.ConnectRequest)
		if all.Of(&again) != k {
			t.Errorf("%+v has two kinds", info)
		}
		if (k.Form == hub.Bare) != (info.Mode == transport.OneWay) {
			t.Errorf("%+v: form %d", info, k.Form)
		}
	}
}

// A one-way connection gets the push that a reply holds, or the connect result as a push,
// or an empty push for a ping.
func TestBare(t *testing.T) {
	connect := &protocol.ConnectResult{
		Client: "c", Version: "v", Expires: true, TTL: 1, Data: []byte(`2`), Subs: map[string]*protocol.SubscribeResult{"s": {}},
		Ping: 3, Pong: true, Session: "s", Node: "n", Time: 4,
	}
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		k := New(&transport.Info{Framer: &framer{e}, Mode: transport.OneWay})
		for _, c := range []struct {
			reply protocol.Reply
			want  protocol.Push
		}{
			{protocol.Reply{}, protocol.Push{}},
			{protocol.Reply{Push: &protocol.Push{Channel: "c", Join: &protocol.Join{}}}, protocol.Push{Channel: "c", Join: &protocol.Join{}}},
			{protocol.Reply{Connect: connect}, protocol.Push{Connect: &protocol.Connect{
				Client: "c", Version: "v", Expires: true, TTL: 1, Data: []byte(`2`), Subs: connect.Subs,
				Ping: 3, Pong: true, Session: "s", Node: "n", Time: 4,
			}}},
		} {
			got, err := k.Codec.AppendReply([]byte("before"), &c.reply)
			want, _ := codec.For(e).AppendPush([]byte("before"), &c.want)
			if err != nil || string(got) != string(want) {
				t.Errorf("%v: got %q, %v, want %q", e, got, err, want)
			}
		}
	}
}

// compressing is a framer whose connections may use dictionaries.
type compressing struct {
	framer
	all []transport.Dictionary
}

func (f *compressing) Dictionaries() []transport.Dictionary { return f.all }

// book is a dictionary for the clients of a profile.
type book struct {
	profile string
	framer  *framer
}

func (d *book) ID() string               { return "id of " + d.profile }
func (d *book) Framer() transport.Framer { return d.framer }
func (d *book) Offer(req *protocol.ConnectRequest, user string) *protocol.Dictionary {
	if req.Profile != d.profile || user == "" {
		return nil
	}
	return &protocol.Dictionary{ID: d.ID()}
}

// A client that offers it uses the dictionary that is for it, behind its connect result. All connections with it
// share a Framer, whatever else they have agreed on.
func TestDictionaries(t *testing.T) {
	var all Kinds
	books := []transport.Dictionary{&book{"a", &framer{}}, &book{"b", &framer{}}}
	plain, deflate := &compressing{all: books}, &compressing{all: books}
	k := all.Of(&transport.Info{Name: "n", Framer: plain})
	other := all.Of(&transport.Info{Name: "n", Framer: deflate, NativePing: true})
	for _, c := range []struct {
		req  protocol.ConnectRequest
		user string
		want string
	}{
		{protocol.ConnectRequest{Flag: 1, Profile: "a"}, "u", "id of a"},
		{protocol.ConnectRequest{Flag: 3, Profile: "b"}, "u", "id of b"},
		{protocol.ConnectRequest{Flag: 1, Profile: "c"}, "u", ""},
		{protocol.ConnectRequest{Flag: 1, Profile: "a"}, "", ""},
		{protocol.ConnectRequest{Flag: 2, Profile: "a"}, "u", ""},
	} {
		r := k.Result(&c.req, c.user, []byte("1"))
		if string(r.Data) != "1" || (r.Flag == 1) != (c.want != "") || (r.Dict != nil) != (c.want != "") || r.Dict != nil && r.Dict.ID != c.want {
			t.Errorf("%+v: %+v", c.req, r)
		}
		behind, too := k.Behind(&r), other.Behind(&r)
		if (behind == k) != (c.want == "") || !too.NativePing || behind.NativePing {
			t.Errorf("%+v: behind it %+v, %+v", c.req, behind, too)
		}
		if shared := behind.Framer == too.Framer; shared != (c.want != "") {
			t.Errorf("%+v: one framer: %v", c.req, shared)
		}
	}
	for _, info := range []transport.Info{{Mode: transport.OneWay}, {Mode: transport.Emulated}} {
		info.Framer = plain
		if r := all.Of(&info).Result(&protocol.ConnectRequest{Flag: 1, Profile: "a"}, "u", nil); r.Dict != nil {
			t.Errorf("mode %d uses a dictionary", info.Mode)
		}
	}
}

// Numbers replace names where it is known that the client understands them.
func TestCompacts(t *testing.T) {
	asJSON, asProtobuf := New(&transport.Info{Framer: jsonFramer}), New(&transport.Info{Framer: protobufFramer})
	for name, want := range map[string]bool{"": false, "js": false, "mine": false, "go": true, "python": true} {
		if asProtobuf.Compacts(name) != want || !asJSON.Compacts(name) {
			t.Errorf("%q: %v in Protobuf, %v in JSON", name, asProtobuf.Compacts(name), asJSON.Compacts(name))
		}
	}
}

func TestCommands(t *testing.T) {
	asJSON, asProtobuf := New(&transport.Info{Framer: jsonFramer}), New(&transport.Info{Framer: protobufFramer})
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.String().Draw(t, "lines")
		data, err := json.Marshal(lines)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := asJSON.Commands(data); err != nil || string(got) != lines {
			t.Fatalf("%q: got %q, %v", data, got, err)
		}
		if got, err := asProtobuf.Commands(data); err != nil || string(got) != string(data) {
			t.Fatalf("%q: got %q, %v", data, got, err)
		}
	})
	for _, data := range []string{"", "null", "{}", `{"id":1}`, `["a"]`, "7", `"a`, `"a" "b"`, "\"a\nb\"", "\"\xff\""} {
		if got, err := asJSON.Commands([]byte(data)); err == nil {
			t.Errorf("%q is taken for %q", data, got)
		}
	}
}

func TestRefusal(t *testing.T) {
	other := protocol.Disconnect{Code: 4999, Reason: "other"}
	for _, c := range []struct {
		err  error
		want protocol.Disconnect
	}{
		{protocol.ErrorTokenExpired, protocol.DisconnectExpired},
		{protocol.ErrorExpired, protocol.DisconnectExpired},
		{protocol.ErrorTooManyRequests, protocol.DisconnectTooManyRequests},
		{protocol.ErrorPermissionDenied, protocol.DisconnectPermissionDenied},
		{fmt.Errorf("wrapped: %w", protocol.ErrorPermissionDenied), protocol.DisconnectPermissionDenied},
		{protocol.ErrorUnknownChannel, protocol.DisconnectServerError},
		{&protocol.Error{Code: 400, Message: "mine"}, protocol.DisconnectServerError},
		{errors.New("boom"), protocol.DisconnectServerError},
		{protocol.Disconnect{Code: 4500, Reason: "mine"}, protocol.Disconnect{Code: 4500, Reason: "mine"}},
		{protocol.Disconnect{Code: 108, Reason: "mine"}, protocol.Disconnect{Code: 108, Reason: "mine"}},
		{protocol.ErrorNotAvailable, other},
		{fmt.Errorf("wrapped: %w", protocol.ErrorLimitExceeded), protocol.DisconnectServerError},
	} {
		if got := Refusal(nil, c.err, map[uint32]protocol.Disconnect{108: other}); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
