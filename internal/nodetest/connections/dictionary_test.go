package connections

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport/websocket"
)

const prices = `{"push":{"channel":"ch","pub":{"data":{"symbol":"EURUSD","exchange":"XETRA","currency":"EUR","price":1.0`

// unpacker is the connection of a client with dictionary compression, as one without: it does what the protocol
// says to what the server sends.
type unpacker struct {
	net.Conn
	tb         testing.TB
	encoding   protocol.Encoding
	in         *bufio.Reader
	out        bytes.Buffer
	connected  bool
	dictionary []byte // what the client holds; nil: none
	told       *protocol.Dictionary
	plain      atomic.Int32
	packed     atomic.Int32
	bytes      atomic.Int64 // of packed messages
}

func (u *unpacker) Read(p []byte) (int, error) {
	for u.out.Len() == 0 {
		f, err := frametest.Read(u.in)
		if err != nil {
			return 0, err
		}
		if f.Op == frametest.OpText || f.Op == frametest.OpBinary {
			f = u.unpack(f)
		}
		u.out.Write(frametest.Unmasked(f))
	}
	return u.out.Read(p)
}

func (u *unpacker) unpack(f frametest.Frame) frametest.Frame {
	if !u.connected {
		var r protocol.Reply
		if _, err := codec.ForClient(u.encoding).DecodeReply([]byte(f.Payload), &r); err != nil || r.Connect == nil {
			u.tb.Errorf("%v: %v, %+v", f, err, r)
		}
		u.connected = true
		u.learn(r.Connect)
		return f
	}
	if u.told == nil {
		if f.RSV1 { // permessage-deflate, as agreed
			text, err := io.ReadAll(frametest.Inflater(f.Payload))
			if err != nil {
				u.tb.Error(err)
			}
			f.Payload, f.RSV1 = string(text), false
		}
		return f
	}
	if f.Op != frametest.OpBinary || f.Payload == "" || f.RSV1 {
		u.tb.Errorf("%v behind a dictionary", f)
	}
	switch rest := f.Payload[1:]; f.Payload[0] {
	case 0:
		u.plain.Add(1)
		f.Payload = rest
	case 1:
		u.packed.Add(1)
		u.bytes.Add(int64(len(f.Payload)))
		text, err := io.ReadAll(flate.NewReaderDict(strings.NewReader(rest), u.dictionary))
		if err != nil || len(text) <= len(rest) {
			u.tb.Errorf("%x: %v, %d bytes", rest, err, len(text))
		}
		f.Payload = string(text)
	default:
		u.tb.Errorf("mark of %v", f)
	}
	if u.encoding == protocol.JSON {
		f.Op = frametest.OpText
	}
	return f
}

// learn keeps the dictionary of a connect result.
func (u *unpacker) learn(r *protocol.ConnectResult) {
	if (r.Flag == 1) != (r.Dict != nil) {
		u.tb.Errorf("flag %d, dictionary %v", r.Flag, r.Dict)
	}
	if u.told = r.Dict; r.Dict == nil {
		return
	}
	deflated := r.Dict.Data
	if u.encoding == protocol.JSON {
		deflated, _ = base64.StdEncoding.DecodeString(r.Dict.DataB64)
	}
	if len(deflated) > 0 {
		var err error
		if u.dictionary, err = io.ReadAll(flate.NewReader(bytes.NewReader(deflated))); err != nil {
			u.tb.Error(err)
		}
	}
	sum := sha256.Sum256(u.dictionary)
	if id := base64.RawURLEncoding.EncodeToString(sum[:12]); id != r.Dict.ID {
		u.tb.Errorf("dictionary %q has the ID %s", u.dictionary, id)
	}
}

// unpacked opens a WebSocket connection whose server may use a dictionary. held is what the client has.
func unpacked(tb testing.TB, address string, e protocol.Encoding, held string) (*wstest.Client, *unpacker) {
	tb.Helper()
	if e == protocol.Protobuf {
		address += "?cf_protocol=protobuf"
	}
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := net.Dial("tcp", req.Host)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
		"Sec-Websocket-Extensions": {"permessage-deflate; client_no_context_takeover; server_no_context_takeover"},
	}
	if err := req.Write(conn); err != nil {
		tb.Fatal(err)
	}
	u := &unpacker{Conn: conn, tb: tb, encoding: e, in: bufio.NewReader(conn), dictionary: []byte(held)}
	resp, err := http.ReadResponse(u.in, req)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Body.Close() != nil {
		tb.Fatal(resp, err)
	}
	return wstest.Over(tb, address, u), u
}

func newDictionary(tb testing.TB, e protocol.Encoding, profile string, anonymous bool, data string) *websocket.Dictionary {
	tb.Helper()
	d, err := websocket.NewDictionary(e, profile, anonymous, []byte(data))
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// The messages behind the connect result are compressed against the dictionary of the client's profile; those of
// other clients of the channel stay as they are.
func TestDictionaries(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{Handlers: nodetest.Everything(gyro.SubscribeOptions{Recoverable: true}, gyro.PublishOptions{})})
	cfg := websocket.Config{Compression: true, Dictionaries: []*websocket.Dictionary{
		newDictionary(t, protocol.JSON, "", false, prices), newDictionary(t, protocol.Protobuf, "", false, prices[40:]),
		newDictionary(t, protocol.JSON, "trading", false, prices+"trading"),
	}}
	s := httptest.NewServer(websocket.NewHandler(node, cfg))
	t.Cleanup(s.Close)
	offer := `"token":"u","flag":1`
	for _, c := range []struct {
		encoding      protocol.Encoding
		connect, held string
		packed        bool
		dictionary    string // that the client is told; "": none
	}{
		{protocol.JSON, offer, "", true, prices},
		{protocol.Protobuf, offer, "", true, prices[40:]},
		{protocol.JSON, offer + `,"profile":"trading"`, "", true, prices + "trading"},
		{protocol.JSON, offer + fmt.Sprintf(`,"dict":%q`, cfg.Dictionaries[0].ID()), prices, true, ""},
		{protocol.JSON, offer + `,"dict":"another"`, "", true, prices},
		{protocol.JSON, offer + `,"profile":"other"`, "", false, ""},
		{protocol.JSON, `"token":"u"`, "", false, ""},
		{protocol.JSON, `"token":"u","flag":2`, "", false, ""},
	} {
		client, wire := unpacked(t, s.URL, c.encoding, c.held)
		// The reply of a command in the same frame is in the frame of the connect result, or behind it.
		client.Send(`{"id":101,"connect":{` + c.connect + `}}` + "\n" + `{"id":102,"subscribe":{"channel":"ch"}}`)
		r := client.Await(101).Connect
		if client.Await(102).Subscribe == nil {
			t.Fatal("not subscribed")
		}
		if told := r.Dict != nil && r.Dict.DataB64+string(r.Dict.Data) != ""; (r.Dict != nil) != c.packed || told != (c.dictionary != "") {
			t.Fatalf("%s: told of %+v", c.connect, r.Dict)
		}
		if c.dictionary != "" && string(wire.dictionary) != c.dictionary {
			t.Errorf("%s: learned %q", c.connect, wire.dictionary)
		}
		const n = 30
		for i := range n {
			data := fmt.Sprintf(`{"symbol":"EURUSD","exchange":"XETRA","currency":"EUR","price":1.0%d}`, i)
			if _, err := node.Publish(context.Background(), "ch", []byte(data), nil); err != nil {
				t.Fatal(err)
			}
			nodetest.WantPub(t, client, data)
		}
		client.Do(`"rpc":{"method":"m","data":{"small":1}}`)
		if got := int(wire.packed.Load()); c.packed != (got >= n) || !c.packed && got+int(wire.plain.Load()) > 0 {
			t.Errorf("%s: %d packed, %d plain", c.connect, got, wire.plain.Load())
		}
		if size := wire.bytes.Load() / max(int64(wire.packed.Load()), 1); size > 60 {
			t.Errorf("%s: %d bytes per message", c.connect, size)
		}
	}
}

// A dictionary is not for anonymous clients, unless it says so, and not for other transports.
func TestDictionariesAreNotForAll(t *testing.T) {
	anybody := func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
		return gyro.ConnectReply{Credentials: &gyro.Credentials{}}, nil
	}
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{Connecting: anybody}})
	cfg := websocket.Config{Dictionaries: []*websocket.Dictionary{
		newDictionary(t, protocol.JSON, "", false, prices), newDictionary(t, protocol.JSON, "open", true, prices),
	}}
	s := httptest.NewServer(websocket.NewHandler(node, cfg))
	t.Cleanup(s.Close)
	for connect, want := range map[string]bool{`"flag":1`: false, `"flag":1,"profile":"open"`: true} {
		client, _ := unpacked(t, s.URL, protocol.JSON, "")
		if r := client.Connect(connect); (r.Dict != nil) != want || (r.Flag == 1) != want {
			t.Errorf("%s: %d, %+v", connect, r.Flag, r.Dict)
		}
	}
	if r := wstest.Pipe(t, node).Connect(`"flag":1,"profile":"open"`); r.Dict != nil || r.Flag != 0 {
		t.Errorf("another transport: %+v", r)
	}
}
