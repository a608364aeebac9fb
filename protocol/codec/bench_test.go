package codec

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gyrohq/gyro/protocol"
)

// publicationReply is the message that a server sends most: a publication with a
// payload of 128 bytes.
func publicationReply() *protocol.Reply {
	data := []byte(`{"t":"message","d":"` + strings.Repeat("x", 106) + `"}`)
	return &protocol.Reply{Push: &protocol.Push{
		Channel: "news:1",
		Pub:     &protocol.Publication{Data: data, Offset: 12345},
	}}
}

var encodings = []protocol.Encoding{protocol.JSON, protocol.Protobuf}

func BenchmarkAppendReply(b *testing.B) {
	for _, e := range encodings {
		b.Run(e.String(), func(b *testing.B) {
			c, reply := For(e), publicationReply()
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.AppendReply(buf, reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, e := range encodings {
		c, reply := For(e), publicationReply()
		buf := make([]byte, 0, 1024)
		checkAllocs(t, e.String()+" reply", 0, func() error {
			_, err := c.AppendReply(buf, reply)
			return err
		})
		// The request, and each of its two strings.
		for name, most := range map[string]float64{"pong": 0, "publish": 3} {
			frame := benchFrame(t, e, name)
			var cmd protocol.Command
			checkAllocs(t, e.String()+" "+name, most, func() error {
				_, err := c.DecodeCommand(frame, &cmd)
				return err
			})
		}
	}
}

func checkAllocs(t *testing.T, name string, most float64, f func() error) {
	t.Helper()
	allocs := testing.AllocsPerRun(100, func() {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > most {
		t.Errorf("%s: %v allocations, budget %v", name, allocs, most)
	}
}

// Commands as the JS SDK sends them.
var benchCommands = map[string]string{
	"publish":   `{"publish":{"channel":"news:1","data":{"t":"message","d":"` + strings.Repeat("x", 106) + `"}},"id":7}`,
	"subscribe": `{"subscribe":{"channel":"news:1","token":"` + strings.Repeat("t", 200) + `","recover":true,"epoch":"kQnB","offset":12,"flag":1},"id":2}`,
	"pong":      `{}`,
}

// benchFrame is one of the commands as a frame.
func benchFrame(t testing.TB, e protocol.Encoding, name string) []byte {
	t.Helper()
	var cmd protocol.Command
	if err := cmd.UnmarshalJSON([]byte(benchCommands[name])); err != nil {
		t.Fatal(err)
	}
	frame, err := ForClient(e).AppendCommand(nil, &cmd)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// BenchmarkDecodeCommandJSON holds the reader of this module against encoding/json,
// which is what it has to beat to be worth its code.
func BenchmarkDecodeCommandJSON(b *testing.B) {
	for name := range benchCommands {
		line := benchFrame(b, protocol.JSON, name)
		b.Run(name+"/codec", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			var cmd protocol.Command
			for b.Loop() {
				if _, err := For(protocol.JSON).DecodeCommand(line, &cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding_json", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				var cmd stdCommand
				if err := json.Unmarshal(line, &cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// stdCommand is the part of a command that the benchmark needs, for encoding/json.
type stdCommand struct {
	ID        uint32 `json:"id,omitempty"`
	Subscribe *struct {
		Channel string `json:"channel,omitempty"`
		Token   string `json:"token,omitempty"`
		Recover bool   `json:"recover,omitempty"`
		Epoch   string `json:"epoch,omitempty"`
		Offset  uint64 `json:"offset,omitempty"`
		Flag    int64  `json:"flag,omitempty"`
	} `json:"subscribe,omitempty"`
	Publish *struct {
		Channel string          `json:"channel,omitempty"`
		Data    json.RawMessage `json:"data,omitempty"`
	} `json:"publish,omitempty"`
}

func BenchmarkDecodeCommandProtobuf(b *testing.B) {
	for name := range benchCommands {
		b.Run(name, func(b *testing.B) {
			frame := benchFrame(b, protocol.Protobuf, name)
			var cmd protocol.Command
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				if _, err := For(protocol.Protobuf).DecodeCommand(frame, &cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValidJSON(b *testing.B) {
	for name, p := range map[string]string{
		"128":      string(publicationReply().Push.Pub.Data),
		"numbers":  `[` + strings.Repeat(`{"x":12.5,"y":-3},`, 60) + `null]`,
		"cyrillic": `{"t":"` + strings.Repeat("сообщение ", 60) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(p)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !ValidJSON(data) {
					b.Fatal("invalid")
				}
			}
		})
	}
}
