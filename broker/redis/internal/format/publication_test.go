package format

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gyrohq/gyro/channel"
)

// The schema of what lies in Redis, for the oracle. Strings are bytes, as Redis does
// not care for UTF-8 and neither do we.
var publicationType, infoType = schema()

func schema() (publication, info protoreflect.MessageDescriptor) {
	optional := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: &optional}
	}
	const (
		bytesType = descriptorpb.FieldDescriptorProto_TYPE_BYTES
		message   = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
		boolType  = descriptorpb.FieldDescriptorProto_TYPE_BOOL
		int64Type = descriptorpb.FieldDescriptorProto_TYPE_INT64
		uint64ty  = descriptorpb.FieldDescriptorProto_TYPE_UINT64
		sint64ty  = descriptorpb.FieldDescriptorProto_TYPE_SINT64
	)
	infoField := field("info", 5, message)
	infoField.TypeName = proto.String(".test.ClientInfo")
	tags := field("tags", 7, message)
	tags.TypeName = proto.String(".test.Tag")
	repeated := descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	tags.Label = &repeated
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("test.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("ClientInfo"), Field: []*descriptorpb.FieldDescriptorProto{
				field("user", 1, bytesType), field("client", 2, bytesType), field("conn_info", 3, bytesType), field("chan_info", 4, bytesType)}},
			{Name: proto.String("Tag"), Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, bytesType), field("value", 2, bytesType)}},
			{Name: proto.String("Publication"), Field: []*descriptorpb.FieldDescriptorProto{
				field("data", 4, bytesType), infoField, field("offset", 6, uint64ty), tags, field("delta", 8, boolType),
				field("time", 9, int64Type), field("channel", 10, bytesType), field("key", 11, bytesType),
				field("removed", 12, boolType), field("score", 13, sint64ty), field("epoch", 14, bytesType),
				field("prev_data", 15, bytesType), field("version", 16, uint64ty)}},
		},
	}, nil)
	if err != nil {
		panic(err)
	}
	return file.Messages().ByName("Publication"), file.Messages().ByName("ClientInfo")
}

// oracle decodes with the Protobuf runtime.
func oracle(data []byte) (pub channel.Publication, delta bool, err error) {
	m := dynamicpb.NewMessage(publicationType)
	if err := proto.Unmarshal(data, m); err != nil {
		return pub, false, err
	}
	get := func(name protoreflect.Name) protoreflect.Value { return m.Get(publicationType.Fields().ByName(name)) }
	pub.Data = get("data").Bytes()
	if f := publicationType.Fields().ByName("info"); m.Has(f) {
		info := m.Get(f).Message()
		text := func(name protoreflect.Name) []byte { return info.Get(infoType.Fields().ByName(name)).Bytes() }
		pub.Info = &channel.ClientInfo{User: string(text("user")), Client: string(text("client")),
			ConnInfo: text("conn_info"), ChanInfo: text("chan_info")}
	}
	tags := get("tags").List()
	for i := range tags.Len() {
		tag := tags.Get(i).Message()
		fields := tag.Descriptor().Fields()
		if pub.Tags == nil {
			pub.Tags = map[string]string{}
		}
		pub.Tags[string(tag.Get(fields.ByNumber(1)).Bytes())] = string(tag.Get(fields.ByNumber(2)).Bytes())
	}
	pub.Time, pub.Version, pub.Score = get("time").Int(), get("version").Uint(), get("score").Int()
	pub.Channel, pub.Key = string(get("channel").Bytes()), string(get("key").Bytes())
	pub.Removed = get("removed").Bool()
	return pub, get("delta").Bool(), nil
}

var full = channel.Publication{
	Data: []byte("data"), Info: &channel.ClientInfo{User: "u", Client: "c", ConnInfo: []byte("1"), ChanInfo: []byte("2")},
	Tags: map[string]string{"k": "v"}, Time: 1, Version: 300, Channel: "ch", Key: "key", Removed: true, Score: -1,
}

// TestBytes compares with bytes that were written by hand.
func TestBytes(t *testing.T) {
	want := "\x22\x04data" + "\x2a\x0c\x0a\x01u\x12\x01c\x1a\x011\x22\x012" + "\x3a\x06\x0a\x01k\x12\x01v" +
		"\x40\x01" + "\x48\x01" + "\x52\x02ch" + "\x5a\x03key" + "\x60\x01" + "\x68\x01" + "\x80\x01\xac\x02"
	got := AppendPublication(nil, &full, true)
	if string(got) != want {
		t.Fatalf("\n%q, want\n%q", got, want)
	}
	var pub channel.Publication
	delta, err := ReadPublication(got, &pub)
	if diff := cmp.Diff(full, pub); diff != "" || err != nil || !delta {
		t.Errorf("delta %v, %v (-want +got):\n%s", delta, err, diff)
	}
	if got := full.Info.AppendProto(nil); string(got) != "\x0a\x01u\x12\x01c\x1a\x011\x22\x012" {
		t.Errorf("client info %q", got)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Message{
		"":                              {},
		"\x22\x04data":                  {Data: []byte("\x22\x04data")},
		"__p1:12:abc__data":             {Offset: 12, Epoch: []byte("abc"), Data: []byte("data")},
		"__p1:18446744073709551615:a__": {Offset: 1<<64 - 1, Epoch: []byte("a")},
		"__p1:1:a__b__c":                {Offset: 1, Epoch: []byte("a"), Data: []byte("b__c")},
		"__d1:2:abc:0::4:data":          {Delta: true, Offset: 2, Epoch: []byte("abc"), Data: []byte("data")},
		"__d1:2:abc:3:a:b:4:d:ta":       {Delta: true, Offset: 2, Epoch: []byte("abc"), Prev: []byte("a:b"), Data: []byte("d:ta")},
		"__d1:2:e:13:__p1:1:e__old:1:d": {Delta: true, Offset: 2, Epoch: []byte("e"), Prev: []byte("old"), Data: []byte("d")},
		"__j__info":                     {Kind: KindJoin, Data: []byte("info")},
		"__l__":                         {Kind: KindLeave},
	} {
		got, err := ParseMessage([]byte(text))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{
		"_", "__", "__x__", "__p1:", "__p1:1", "__p1:1:", "__p1:1:a_", "__p1::a__", "__p1:x:a__", "__p1:-1:a__",
		"__p1:18446744073709551616:a__", "__p1:99999999999999999999999:a__", "__d1:1:a", "__d1:1:a:5:x:1:y", "__d1:1:a:1:x:2:y",
		"__d1:1:a:1:x:1:yz", "__d1:1:a:1:x1:y", "__d1:1:a:5:__p1::1:y",
	} {
		if m, err := ParseMessage([]byte(text)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
}

// FuzzPublication compares with the Protobuf runtime.
func FuzzPublication(f *testing.F) {
	f.Add(AppendPublication(nil, &full, true))
	f.Add([]byte("\x2a\x00\x2a\x03\x0a\x01x\x70\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		want, wantDelta, wantErr := oracle(data)
		var got channel.Publication
		delta, err := ReadPublication(data, &got)
		if wantErr == nil && err != nil && !hasGroup(data) {
			t.Fatalf("%v, and the oracle accepts it", err)
		}
		if wantErr != nil || err != nil {
			return
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || delta != wantDelta {
			t.Fatalf("delta %v, want %v (-want +got):\n%s", delta, wantDelta, diff)
		}
		var again channel.Publication
		if delta, err := ReadPublication(AppendPublication(nil, &got, delta), &again); err != nil || delta != wantDelta {
			t.Fatalf("after encoding: %v, %v", delta, err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("encoded and decoded (-want +got):\n%s", diff)
		}
	})
}

// hasGroup is generous: groups, which the oracle skips and we refuse, begin with
// a key of wire type 3.
func hasGroup(data []byte) bool {
	for _, b := range data {
		if b&7 == 3 {
			return true
		}
	}
	return false
}

// FuzzParse checks that what is accepted says the same when written again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"__p1:12:abc__data", "__d1:2:abc:3:a:b:4:data", "__j__info", "__d1:2:e:13:__p1:1:e__old:1:d", "x"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMessage(data)
		if err != nil {
			return
		}
		if m.Kind == KindPublication && m.Delta && !bytes.HasSuffix(data, m.Data) {
			t.Fatalf("%q is not the end of %q", m.Data, data)
		}
		if len(m.Data)+len(m.Prev)+len(m.Epoch) > len(data) {
			t.Fatalf("more came out of %q than was in it: %+v", data, m)
		}
	})
}

func BenchmarkPublication(b *testing.B) {
	data := AppendPublication(nil, &channel.Publication{Data: make([]byte, 128), Time: 1795285627821}, false)
	message := append([]byte("__p1:12:abcdefgh__"), data...)
	b.ReportAllocs()
	for b.Loop() {
		m, err := ParseMessage(message)
		if err != nil {
			b.Fatal(err)
		}
		var pub channel.Publication
		if _, err := ReadPublication(m.Data, &pub); err != nil {
			b.Fatal(err)
		}
	}
}
