package codec

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gyrohq/gyro/internal/testkit/proptest"
	"github.com/gyrohq/gyro/protocol"
)

// TestProtobufAgainstRuntime encodes with each implementation and decodes with the
// other.
func TestProtobufAgainstRuntime(t *testing.T) {
	g := generator{Rand: rand.New(rand.NewPCG(1, 2))}
	for range proptest.Rounds(50) {
		for _, root := range roots {
			want := root()
			d := descriptorOf(t, want)
			g.message(reflect.ValueOf(want).Elem(), d, 3)

			wire := want.AppendProto(nil)
			if len(wire) != want.SizeProto() {
				t.Fatalf("%d bytes, announced %d", len(wire), want.SizeProto())
			}
			dynamic := dynamicpb.NewMessage(d)
			if err := proto.Unmarshal(wire, dynamic); err != nil {
				t.Fatal(err)
			}
			got := root()
			setFromDynamic(reflect.ValueOf(got).Elem(), dynamic)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("runtime reads (-want +got):\n%s", diff)
			}

			theirs, err := proto.Marshal(dynamic)
			if err != nil {
				t.Fatal(err)
			}
			if len(theirs) != len(wire) {
				t.Fatalf("%d bytes, runtime takes %d", len(wire), len(theirs))
			}
			if err := got.UnmarshalProto(theirs); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("codec reads (-want +got):\n%s", diff)
			}
		}
	}
}

// FuzzUnmarshalProto compares with the runtime what is accepted, and as what.
func FuzzUnmarshalProto(f *testing.F) {
	g := generator{Rand: rand.New(rand.NewPCG(3, 4))}
	for i, root := range roots {
		m := root()
		g.message(reflect.ValueOf(m).Elem(), descriptorOf(f, m), 3)
		f.Add(byte(i), m.AppendProto(nil))
	}
	for _, tt := range goldenReplies {
		f.Add(byte(1), unhex(f, tt.proto)[1:])
	}
	f.Add(byte(0), []byte("\x0b\x08\x01\x0c"))         // a group
	f.Add(byte(0), []byte("\x0b\x13\x14\x0c\x08\x01")) // one in another
	f.Add(byte(0), []byte("\x2a\x04\x6a\x02\x32\x00")) // a filter with an empty node
	f.Add(byte(0), []byte("\x22\x06\x1a\x04\x12\x02\x18\x01"))
	f.Fuzz(func(t *testing.T, root byte, data []byte) {
		if len(data) > 400 { // deeper nesting than MaxDepth needs more
			return
		}
		got, want := roots[int(root)%len(roots)](), roots[int(root)%len(roots)]()
		input := bytes.Clone(data)
		err := got.UnmarshalProto(input)
		clear(input) // nothing may alias it
		dynamic := dynamicpb.NewMessage(descriptorOf(t, want))
		wantErr := proto.Unmarshal(data, dynamic)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("codec: %v, runtime: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		setFromDynamic(reflect.ValueOf(want).Elem(), dynamic)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		again := roots[int(root)%len(roots)]()
		if err := again.UnmarshalProto(got.AppendProto(nil)); err != nil || !cmp.Equal(got, again) {
			t.Fatalf("round trip: %v\n%s", err, cmp.Diff(got, again))
		}
	})
}

// FuzzBorrowProto compares what is read without copies with what is read with them.
func FuzzBorrowProto(f *testing.F) {
	g := generator{Rand: rand.New(rand.NewPCG(5, 6))}
	for range 4 {
		m := new(protocol.Push)
		g.message(reflect.ValueOf(m).Elem(), descriptorOf(f, m), 3)
		f.Add(m.AppendProto(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want protocol.Push
		err, wantErr := got.BorrowProto(data), want.UnmarshalProto(data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("without copies: %v, with: %v", err, wantErr)
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if p := got.Pub; err == nil && p != nil && len(p.Data) != cap(p.Data) {
			t.Fatal("appending to the data would overwrite what is behind it")
		}
	})
}

// TestJSONRoundTrip has JSON written that encoding/json must understand.
func TestJSONRoundTrip(t *testing.T) {
	g := generator{Rand: rand.New(rand.NewPCG(5, 6)), json: true}
	for range proptest.Rounds(50) {
		for _, root := range roots {
			want := root()
			d := descriptorOf(t, want)
			g.message(reflect.ValueOf(want).Elem(), d, 3)
			line, err := want.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid(line) || bytes.ContainsAny(line, "\r\n") {
				t.Fatalf("not a line of JSON: %s", line)
			}
			got := root()
			if err := got.UnmarshalJSON(line); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
				t.Fatalf("codec reads (-want +got):\n%s", diff)
			}
			got = root()
			if err := setFromJSON(reflect.ValueOf(got).Elem(), d, line); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
				t.Fatalf("encoding/json reads (-want +got):\n%s", diff)
			}
		}
	}
}

// normal is m in a form that does not depend on what JSON cannot tell apart: blanks
// around a payload.
func normal(t testing.TB, m message) any {
	line, err := m.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// FuzzUnmarshalJSON compares with encoding/json what is accepted, and as what.
func FuzzUnmarshalJSON(f *testing.F) {
	g := generator{Rand: rand.New(rand.NewPCG(7, 8)), json: true}
	for i, root := range roots {
		m := root()
		g.message(reflect.ValueOf(m).Elem(), descriptorOf(f, m), 2)
		line, err := m.AppendJSON(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), line)
	}
	for _, tt := range goldenReplies {
		f.Add(byte(1), []byte(tt.json))
	}
	for _, tt := range commandLines {
		f.Add(byte(0), []byte(tt.line))
	}
	f.Fuzz(func(t *testing.T, root byte, line []byte) {
		got, want := roots[int(root)%len(roots)](), roots[int(root)%len(roots)]()
		if bytes.Count(line, []byte("{"))+bytes.Count(line, []byte("[")) > 500 {
			return // may be nested too deeply
		}
		input := bytes.Clone(line)
		err := ignoreTrailing(got.UnmarshalJSON(input))
		clear(input) // nothing may alias it
		if !utf8.Valid(line) {
			if err == nil {
				t.Fatal("invalid UTF-8 accepted")
			}
			return
		}
		if rest, ok := strings.CutPrefix(strings.TrimLeft(string(line), " \t\r\n"), "null"); ok && rest != "" {
			return // encoding/json looks at the byte behind a literal
		}
		wantErr := setFromJSON(reflect.ValueOf(want).Elem(), descriptorOf(t, want), line)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("codec: %v, encoding/json: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		again := roots[int(root)%len(roots)]()
		out, err := got.AppendJSON(nil)
		if err != nil || !json.Valid(out) || bytes.ContainsAny(out, "\r\n") {
			t.Fatalf("%v: %s", err, out)
		}
		if err := again.UnmarshalJSON(out); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if diff := cmp.Diff(normal(t, got), normal(t, again)); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
	})
}

// FuzzFrame checks that where a frame is cut between messages makes no difference.
func FuzzFrame(f *testing.F) {
	f.Add(false, []byte("{\"id\":1,\"connect\":{}}\n{}\nnull\r\n{\"id\":2,\"rpc\":{\"data\":1}}x\n"))
	f.Add(false, []byte("{}\n\n{}"))
	f.Add(true, []byte("\x08\x08\x01\x22\x04\x22\x02go\x00\x00\x02\x08\x05"))
	f.Add(true, []byte("\x80\x00\x00"))
	f.Add(true, []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00"))
	f.Fuzz(func(t *testing.T, protobuf bool, frame []byte) {
		c := For(protocol.JSON)
		if protobuf {
			c = For(protocol.Protobuf)
		}
		for len(frame) > 0 {
			var whole, alone protocol.Command
			rest, err := c.DecodeCommand(frame, &whole)
			if err != nil {
				return
			}
			if len(rest) >= len(frame) || !bytes.HasSuffix(frame, rest) {
				t.Fatalf("rest %q of %q", rest, frame)
			}
			piece := bytes.Clone(frame[:len(frame)-len(rest)])
			if rest, err := c.DecodeCommand(piece, &alone); err != nil || len(rest) > 0 {
				t.Fatalf("%q alone: %v, rest %q", piece, err, rest)
			}
			clear(piece)
			if diff := cmp.Diff(&whole, &alone); diff != "" {
				t.Fatalf("(-in frame +alone):\n%s", diff)
			}
			frame = rest
		}
	})
}
