package codec

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gyrohq/gyro/protocol"
)

func TestDecodeProtobufFrame(t *testing.T) {
	tests := []struct {
		name  string
		frame string // hex
		want  *protocol.Command
		rest  int
	}{
		{"pong", "00", &protocol.Command{}, 0},
		{"pong and more", "00 ff", &protocol.Command{}, 1},
		{"length in more bytes than needed", "82 80 00 08 05", &protocol.Command{ID: 5}, 0},
		{"connect", "08 08 01 22 04 22 02 67 6f", &protocol.Command{ID: 1, Connect: &protocol.ConnectRequest{Name: "go"}}, 0},
		{"unknown fields", "0b 08 05 10 01 1d 00 00 00 00 1b 1c", &protocol.Command{ID: 5}, 0},
		{"field of another wire type", "04 0a 00 08 05", &protocol.Command{ID: 5}, 0},
		{"id loses upper bits", "06 08 85 80 80 80 10", &protocol.Command{ID: 5}, 0},
		{"parts of a message are merged", "0a 22 02 22 00 22 04 22 02 67 6f", &protocol.Command{Connect: &protocol.ConnectRequest{Name: "go"}}, 0},
		{"map entry without value", "07 22 05 1a 03 0a 01 63", &protocol.Command{
			Connect: &protocol.ConnectRequest{Subs: map[string]*protocol.SubscribeRequest{"c": {}}},
		}, 0},

		{"empty", "", nil, 0},
		{"truncated length", "80", nil, 0},
		{"overlong length", "ff ff ff ff ff ff ff ff ff 02", nil, 0},
		{"announced 2^62 bytes", "80 80 80 80 80 80 80 80 40 00", nil, 0},
		{"announced 2^64-1 bytes", "ff ff ff ff ff ff ff ff ff 01 00", nil, 0},
		{"truncated message", "02 08", nil, 0},
		{"truncated string", "04 22 02 22 05", nil, 0},
		{"field 0", "02 00 00", nil, 0},
		{"field out of range", "06 80 80 80 80 10 00", nil, 0},
		{"wire type 7", "02 0f 00", nil, 0},
		{"group not closed", "01 1b", nil, 0},
		{"group closed by another", "02 1b 24", nil, 0},
		{"end without group", "01 1c", nil, 0},
		{"not UTF-8", "05 22 03 22 01 ff", nil, 0},
		{"cut fixed64", "05 11 00 00 00 00", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := protocol.Command{ID: 77, Ping: &protocol.PingRequest{}} // to be reset
			rest, err := For(protocol.Protobuf).DecodeCommand(unhex(t, tt.frame), &got)
			if tt.want == nil {
				if err == nil {
					t.Fatalf("accepted as %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(rest) != tt.rest {
				t.Errorf("%d bytes are left", len(rest))
			}
			if diff := cmp.Diff(tt.want, &got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProtobufDepth(t *testing.T) {
	var cmd protocol.Command
	groups := strings.Repeat("\x1b", 100_000)
	frame := append(binary.AppendUvarint(nil, uint64(len(groups))), groups...)
	if _, err := For(protocol.Protobuf).DecodeCommand(frame, &cmd); err == nil {
		t.Error("groups without end are accepted")
	}
}
