package control

import (
	"context"
	"encoding/hex"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// The numbers of fields never change: they are compared with bytes that were written by hand.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		wire string
		want *Command
	}{
		{"0a0175 2213 0a0175 12016e 1a0176 2001 2802 3003 3804 5005", &Command{UID: "u", Node: &Node{
			UID: "u", Name: "n", Version: "v", NumClients: 1, NumUsers: 2, NumChannels: 3, Uptime: 4, NumSubs: 5}}},
		{"2a12 0a0163 120175 1a0169 220173 28d00f 320172", &Command{Unsubscribe: &Unsubscribe{
			Channel: "c", User: "u", Client: "i", Session: "s", Code: 2000, Reason: "r"}}},
		{"3215 0a0175 120177 120178 18af1b 220172 320169 3a0173", &Command{Disconnect: &Disconnect{
			User: "u", Whitelist: []string{"w", "x"}, Code: 3503, Reason: "r", Client: "i", Session: "s"}}},
		{"3a00", &Command{Shutdown: &Shutdown{}}},
		{"4208 0801 12016f 1a0164", &Command{SurveyRequest: &SurveyRequest{ID: 1, Op: "o", Data: []byte("d")}}},
		{"4a07 0801 1003 1a0164", &Command{SurveyResponse: &SurveyResponse{ID: 1, Code: 3, Data: []byte("d")}}},
		{"5227 0a0175 120163 1801 2001 2805 3001 3801 420169 4a016c 520164 5a050801120165 620173 6801 700a", &Command{Subscribe: &Subscribe{
			User: "u", Channel: "c", EmitPresence: true, EmitJoinLeave: true, ExpireAt: 5, Position: true, Recover: true,
			ChannelInfo: []byte("i"), Client: "l", Data: []byte("d"), RecoverSince: &Position{Offset: 1, Epoch: "e"},
			Session: "s", PushJoinLeave: true, Source: 10}}},
		{"6210 0a0175 120169 1801 2005 2a0164 320173", &Command{Refresh: &Refresh{
			User: "u", Client: "i", Expired: true, ExpireAt: 5, Info: []byte("d"), Session: "s"}}},
		// What is of another version, or of the extended edition, is passed over.
		{"0a0175 5a03 0a016f", &Command{UID: "u"}},
		{"0a0175 2205 4203 0a0131 fa06036e6577", &Command{UID: "u", Node: &Node{}}},
		{"320b 0a0175 4003 4a020801 4801", &Command{Disconnect: &Disconnect{User: "u"}}},
	} {
		wire, err := hex.DecodeString(strings.ReplaceAll(tt.wire, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var got Command
		if err := got.UnmarshalProto(wire); err != nil {
			t.Errorf("%s: %v", tt.wire, err)
			continue
		}
		if diff := cmp.Diff(tt.want, &got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.wire, diff)
		}
	}
}

// all has every field set.
var all = []*Command{
	{UID: "u", Node: &Node{UID: "u", Name: "é", Version: "1", NumClients: math.MaxUint32, NumUsers: 1, NumChannels: 2, Uptime: 3, NumSubs: 4, Protocol: 5}},
	{UID: "u", Shutdown: &Shutdown{}},
	{UID: "u", Subscribe: &Subscribe{
		User: "u", Channel: "c", EmitPresence: true, EmitJoinLeave: true, ExpireAt: -1, Position: true, Recover: true,
		ChannelInfo: []byte{0}, Client: "l", Data: []byte{1}, RecoverSince: &Position{Offset: math.MaxUint64, Epoch: "e"}, Session: "s",
		PushJoinLeave: true, Source: 300, RecoveryMode: 1, AutoRecover: true, HistoryMetaTTL: 1e18, AllowDelta: true,
		AllowTagsFilter: true, ServerTagsFilter: []byte{2}, AllowCompaction: true, BatchMaxDelay: 4, BatchMaxSize: 5, BatchFlushLatest: true, Initial: []byte{3},
		PresenceMaps: []*PresenceMap{{Channel: "p", Kind: 2, KeyTTL: 1, StreamSize: 2, StreamTTL: 3, MetaTTL: -4}, {}}}},
	{UID: "u", Unsubscribe: &Unsubscribe{Channel: "c", User: "u", Client: "i", Session: "s", Code: 2000, Reason: "r"}},
	{UID: "u", Disconnect: &Disconnect{User: "u", Whitelist: []string{"", "b"}, Code: 1, Reason: "r", Client: "i", Session: "s"}},
	{UID: "u", Refresh: &Refresh{User: "u", Client: "i", Expired: true, ExpireAt: math.MinInt64, Info: []byte{1}, Session: "s"}},
	{UID: "u", SurveyRequest: &SurveyRequest{ID: math.MaxUint64, Op: "o", Data: []byte{1}, Timeout: 10000}},
	{UID: "u", SurveyResponse: &SurveyResponse{ID: 1, Code: 3, Data: []byte{1}}},
}

func TestRoundTrip(t *testing.T) {
	for _, want := range all {
		wire := want.AppendProto(nil)
		if len(wire) != want.SizeProto() {
			t.Errorf("%d bytes, announced as %d", len(wire), want.SizeProto())
		}
		var got Command
		if err := got.UnmarshalProto(wire); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

var schema = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{}}
	files, err := compiler.Compile(context.Background(), "control.proto")
	if err != nil {
		return nil, err
	}
	return files[0], nil
})

// FuzzCommand compares with the Protobuf runtime: both accept the same bytes, and what
// is written again means the same to it, without what is not known.
func FuzzCommand(f *testing.F) {
	for _, c := range all {
		f.Add(c.AppendProto(nil))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		file, err := schema()
		if err != nil {
			t.Fatal(err)
		}
		d := file.Messages().ByName("Command")
		want := dynamicpb.NewMessage(d)
		wantErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(wire, want)
		var c Command
		if err := c.UnmarshalProto(wire); (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, the runtime: %v", err, wantErr)
		} else if err != nil {
			return
		}
		again := dynamicpb.NewMessage(d)
		if err := proto.Unmarshal(c.AppendProto(nil), again); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(want, again) {
			t.Fatalf("%v is written as %v", want, again)
		}
	})
}

// Whatever the options of a subscription are, every node makes the same of it: a field
// that is added to them has to travel.
func TestOptionsTravel(t *testing.T) {
	o := &channel.SubscribeOptions{
		ExpireAt: time.Unix(1, 0), ChanInfo: []byte("i"), Data: []byte("d"), Presence: true, EmitJoinLeave: true, PushJoinLeave: true,
		Positioned: true, Recoverable: true, RecoveryMode: channel.RecoverCache, AutoRecover: true,
		RecoverSince:   &channel.StreamPosition{Offset: 2, Epoch: "e"},
		HistoryMetaTTL: 3, AllowDelta: true, AllowTagsFilter: true, AllowCompaction: true,
		ServerTagsFilter: &protocol.FilterNode{Op: "and", Nodes: []*protocol.FilterNode{{Key: "k", Cmp: "eq", Val: "v"}}},
		Publications: []*channel.Publication{{
			Offset: 4, Data: []byte("p"), Info: &channel.ClientInfo{User: "u", Client: "c", ConnInfo: []byte("1"), ChanInfo: []byte("2")},
			Tags: map[string]string{"a": "b"}, Time: 5, Version: 6, Channel: "real", Key: "key", Removed: true, Score: -7,
		}},
		BatchMaxDelay: 8, BatchMaxSize: 9, BatchFlushLatest: true, Source: 10, Rights: channel.RightPublish, Needs: channel.RightHistory,
		PresenceMaps: []channel.PresenceMap{{Channel: "who", Kind: channel.MapUsers, Options: channel.MapOptions{
			KeyTTL: 11, StreamSize: 12, StreamTTL: 13, MetaTTL: 14,
		}}},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(*o), reflect.ValueOf(*o.Publications[0])} {
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			// Every node sets Checked for itself. A server makes no subscriptions to maps and shared polls, nor by tokens,
			// nor for clients to publish.
			if v.Field(i).IsZero() && !slices.Contains([]string{"Checked", "Map", "Poll", "PublishDebounce", "Token"}, name) {
				t.Errorf("%s.%s is not tested", v.Type(), name)
			}
		}
	}
	m := Subscribe{User: "u", Channel: "c", Client: "l", Session: "s"}
	m.SetOptions(o)
	var got Subscribe
	if err := got.UnmarshalProto(m.AppendProto(nil)); err != nil {
		t.Fatal(err)
	}
	if got.User != "u" || got.Channel != "c" || got.Client != "l" || got.Session != "s" {
		t.Errorf("the target is %+v", got)
	}
	back, err := got.Options()
	if diff := cmp.Diff(o, back); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
