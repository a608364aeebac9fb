package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gyrohq/gyro/server/internal/api"
	"github.com/gyrohq/gyro/server/internal/testkit/schematest"
)

// The oracles know the schema only: the Protobuf runtime interprets it, and so does
// treeOfJSON by means of encoding/json. What a message holds is compared as a tree: of an
// object the members that are not zero, by name.
type tree = map[string]any

// message is what every generated struct implements.
type message interface {
	AppendProto(dst []byte) []byte
	SizeProto() int
	UnmarshalProto(data []byte) error
	AppendJSON(dst []byte) ([]byte, error)
	UnmarshalJSON(data []byte) error
}

// roots are messages that have all the others in them.
var roots = []func() message{
	func() message { return new(api.BatchRequest) },
	func() message { return new(api.BatchResponse) },
	func() message { return new(api.PublishRequest) },
}

var schema = schematest.File("api.proto")

func descriptorOf(m any) protoreflect.MessageDescriptor {
	return schema.Message(strings.TrimPrefix(fmt.Sprintf("%T", m), "*api."), "").Descriptor()
}

// isUnion tells the messages of whose members one counts.
func isUnion(d protoreflect.MessageDescriptor) bool {
	return d.Name() == "Command" || d.Name() == "Reply"
}

func treeOfProto(m protoreflect.Message) tree {
	t := tree{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		d := fields.Get(i)
		if !m.Has(d) {
			continue
		}
		v := m.Get(d)
		switch {
		case d.IsMap():
			entries := tree{}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = leafOfProto(d.MapValue(), v)
				return true
			})
			t[d.TextName()] = entries
		case d.IsList():
			var list []any
			for i := range v.List().Len() {
				list = append(list, leafOfProto(d, v.List().Get(i)))
			}
			t[d.TextName()] = list
		default:
			t[d.TextName()] = leafOfProto(d, v)
		}
		if isUnion(m.Descriptor()) {
			break // the first one counts
		}
	}
	return t
}

func leafOfProto(d protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch d.Kind() {
	case protoreflect.MessageKind:
		return treeOfProto(v.Message())
	case protoreflect.BytesKind:
		return string(v.Bytes())
	}
	return fmt.Sprint(v.Interface())
}

// treeOfJSON reads a request in JSON.
func treeOfJSON(d protoreflect.MessageDescriptor, text []byte) (tree, error) {
	t := tree{}
	members, err := membersOf(text, true)
	if err != nil {
		return nil, err
	}
	if members == nil && isUnion(d) {
		return nil, nil
	}
	for _, m := range members {
		fd := d.Fields().ByName(protoreflect.Name(m.name))
		if fd == nil {
			fd = d.Fields().ByName(protoreflect.Name(lower(m.name)))
		}
		if fd == nil {
			continue
		}
		v, err := fieldOfJSON(fd, m.value)
		if err != nil {
			return nil, err
		}
		if string(m.value) != "null" || fd.Kind() == protoreflect.BytesKind {
			t[fd.TextName()] = v
		} else if fd.IsList() || isUnion(d) {
			delete(t, fd.TextName())
		}
	}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		name := fd.TextName()
		if isZero(fd, t[name]) {
			delete(t, name)
		} else if isUnion(d) {
			return tree{name: t[name]}, nil // of several members the first counts
		}
	}
	return t, nil
}

func isZero(d protoreflect.FieldDescriptor, v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case tree:
		return d.IsMap() && len(v) == 0
	case string:
		return v == "" || d.Kind() != protoreflect.StringKind && d.Kind() != protoreflect.BytesKind && (v == "0" || v == "false")
	}
	return v == nil
}

type member struct {
	name  string
	value json.RawMessage
}

// membersOf takes an object apart, or, with named false, an array. null has no members.
func membersOf(text []byte, named bool) (members []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	open := json.Delim('[')
	if named {
		open = '{'
	}
	token, err := dec.Token()
	if err != nil || token == nil {
		return nil, err
	}
	if token != open {
		return nil, fmt.Errorf("%v is not expected", token)
	}
	members = []member{}
	for dec.More() {
		var m member
		if named {
			token, err := dec.Token()
			if err != nil {
				return nil, err
			}
			m.name = token.(string)
		}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

func fieldOfJSON(d protoreflect.FieldDescriptor, text json.RawMessage) (any, error) {
	switch {
	case d.IsMap():
		entries := tree{}
		members, err := membersOf(text, true)
		for _, m := range members {
			if entries[m.name], err = leafOfJSON(d.MapValue(), m.value); err != nil {
				break
			}
		}
		return entries, err
	case d.IsList():
		list := []any{}
		members, err := membersOf(text, false)
		for _, m := range members {
			v, err := leafOfJSON(d, m.value)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, err
	}
	return leafOfJSON(d, text)
}

func leafOfJSON(d protoreflect.FieldDescriptor, text json.RawMessage) (any, error) {
	var err error
	switch d.Kind() {
	case protoreflect.MessageKind:
		return treeOfJSON(d.Message(), text)
	case protoreflect.BytesKind:
		return string(text), nil
	case protoreflect.StringKind:
		var v string
		err = json.Unmarshal(text, &v)
		return v, err
	case protoreflect.BoolKind:
		var v bool
		err = json.Unmarshal(text, &v)
		return strconv.FormatBool(v), err
	case protoreflect.Int32Kind:
		var v int32
		err = json.Unmarshal(text, &v)
		return fmt.Sprint(v), err
	case protoreflect.Int64Kind:
		var v int64
		err = json.Unmarshal(text, &v)
		return fmt.Sprint(v), err
	case protoreflect.Uint32Kind:
		var v uint32
		err = json.Unmarshal(text, &v)
		return fmt.Sprint(v), err
	case protoreflect.Uint64Kind:
		var v uint64
		err = json.Unmarshal(text, &v)
		return fmt.Sprint(v), err
	case protoreflect.DoubleKind:
		var v float64
		err = json.Unmarshal(text, &v)
		return fmt.Sprint(v), err
	}
	panic(d.Kind())
}

func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// held is what a message holds, by the runtime's reading of its Protobuf form.
func held(t *testing.T, m message) tree {
	t.Helper()
	wire := m.AppendProto([]byte("x"))[1:]
	if len(wire) != m.SizeProto() {
		t.Fatalf("%d bytes, announced as %d", len(wire), m.SizeProto())
	}
	dynamic := dynamicpb.NewMessage(descriptorOf(m))
	if err := proto.Unmarshal(wire, dynamic); err != nil {
		t.Fatal(err)
	}
	return treeOfProto(dynamic)
}

// TestCodecs writes random messages with the Protobuf runtime, reads them, writes them in
// both encodings and has them read by the oracles.
func TestCodecs(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for range 300 {
		for _, root := range roots {
			m := root()
			d := descriptorOf(m)
			dynamic := dynamicpb.NewMessage(d)
			g.fill(dynamic, 4)
			data, err := proto.Marshal(dynamic)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.UnmarshalProto(data); err != nil {
				t.Fatal(err)
			}
			clear(data) // nothing may alias it
			want := treeOfProto(dynamic)
			if diff := cmp.Diff(want, held(t, m)); diff != "" {
				t.Fatalf("Protobuf (-want +got):\n%s", diff)
			}
			line, err := m.AppendJSON(nil)
			if err != nil || !json.Valid(line) {
				t.Fatalf("%v: %s", err, line)
			}
			got, err := treeOfJSON(d, line)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Fatalf("%v: JSON (-want +got):\n%s", err, diff)
			}
			again := root()
			if err := again.UnmarshalJSON(line); err != nil {
				t.Fatal(err)
			}
			clear(line)
			if diff := cmp.Diff(want, held(t, again)); diff != "" {
				t.Fatalf("read from JSON (-want +got):\n%s", diff)
			}
		}
	}
}

type generator struct{ *rand.Rand }

// fill sets members at random.
func (g generator) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		d := fields.Get(i)
		if g.IntN(3) > 0 || d.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case d.IsMap():
			for range 1 + g.IntN(3) {
				v := m.Mutable(d).Map().NewValue()
				m.Mutable(d).Map().Set(protoreflect.ValueOfString(g.text()).MapKey(), g.value(v, d.MapValue(), depth))
			}
		case d.IsList():
			for range 1 + g.IntN(20) {
				v := m.Mutable(d).List().NewElement()
				m.Mutable(d).List().Append(g.value(v, d, depth))
			}
		default:
			m.Set(d, g.value(m.NewField(d), d, depth))
		}
	}
}

func (g generator) value(v protoreflect.Value, d protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch d.Kind() {
	case protoreflect.MessageKind:
		g.fill(v.Message(), depth-1)
		return v
	case protoreflect.BytesKind:
		values := []string{`{}`, `{"a": 1}`, `null`, `"s\u0000"`, `[1, 2.5e-3,{"x":[]}]`, `-0`, `"` + strings.Repeat("х", 50) + `"`}
		return protoreflect.ValueOfBytes([]byte(values[g.IntN(len(values))]))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(g.text())
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(g.Uint64()))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(g.Uint64()) >> g.IntN(64))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(g.Uint64() >> g.IntN(64)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(g.Uint64() >> g.IntN(64))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(g.NormFloat64() * 1e3)
	}
	panic(d.Kind())
}

func (g generator) text() string {
	words := []string{"", "a", "news:1", `"quoted\"`, "line\nfeed\r", "\x00\x1f\x7f", "канал", "\u2028<&>", "😀", strings.Repeat("long ", 40)}
	return words[g.IntN(len(words))] + words[g.IntN(len(words))]
}

// FuzzUnmarshalProto compares with the Protobuf runtime what is accepted, and as what.
func FuzzUnmarshalProto(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(3, 4))}
	for i, root := range roots {
		dynamic := dynamicpb.NewMessage(descriptorOf(root()))
		g.fill(dynamic, 3)
		data, err := proto.Marshal(dynamic)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), data)
	}
	f.Add(byte(0), []byte("\x0a\x09\x6a\x00\x22\x02\x0a\x00\x22\x01\x00"))
	f.Add(byte(0), []byte("\x0a\x0c\x22\x03\x0a\x01a\x6a\x00\x22\x03\x12\x01b")) // one member twice: merged
	f.Fuzz(func(t *testing.T, root byte, data []byte) {
		if len(data) > 400 { // deeper nesting than the limit needs more
			return
		}
		m := roots[int(root)%len(roots)]()
		err := m.UnmarshalProto(bytes.Clone(data))
		dynamic := dynamicpb.NewMessage(descriptorOf(m))
		if wantErr := proto.Unmarshal(data, dynamic); (err == nil) != (wantErr == nil) {
			t.Fatalf("%v; the runtime: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(treeOfProto(dynamic), held(t, m)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// FuzzUnmarshalJSON compares with encoding/json what is accepted, and as what.
func FuzzUnmarshalJSON(f *testing.F) {
	for _, s := range []string{
		`{"commands":[{"publish":{"channel":"a","data":{"x": 1},"tags":{"a":null}}},null,{},{"x":[]},{"info":{},"PUBLISH":{"Version":18446744073709551615}}],"parallel":true}`,
		`{"commands":[{"publish":{},"publish":null,"info":{},"rpc":{"params": null }},{"subscribe":{"override":{"presence":{"value":true},"join_leave":null}}}]}`,
		`{"commands":[{"history":{"limit":-2147483648,"since":{"offset":1}}}],"commands":null}`, `{"replies":[{"history":{"publications":[null]}}]}`, ` null `, `{} {}`,
	} {
		f.Add(byte(0), []byte(s))
		f.Add(byte(1), []byte(strings.ReplaceAll(s, "commands", "replies")))
	}
	f.Fuzz(func(t *testing.T, root byte, text []byte) {
		if bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > 500 {
			return // may be nested too deeply
		}
		m := roots[int(root)%len(roots)]()
		err := m.UnmarshalJSON(bytes.Clone(text))
		if !utf8.Valid(text) || !json.Valid(text) {
			if err == nil {
				t.Fatal("accepted")
			}
			return
		}
		want, wantErr := treeOfJSON(descriptorOf(m), text)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v; encoding/json: %v", err, wantErr)
		}
		if err != nil {
			return
		}
		line, err := m.AppendJSON(nil)
		if err != nil || !json.Valid(line) || bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("%v: %s", err, line)
		}
		got, err := treeOfJSON(descriptorOf(m), line)
		if diff := cmp.Diff(flat(want), flat(got)); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// flat is v without what is not part of a line.
func flat(v any) any {
	switch v := v.(type) {
	case string:
		return strings.NewReplacer("\r", "", "\n", "").Replace(v)
	case []any:
		for i := range v {
			v[i] = flat(v[i])
		}
	case tree:
		for k := range v {
			v[k] = flat(v[k])
		}
	}
	return v
}
