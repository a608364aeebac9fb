package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/gyrohq/gyro/protocol"
)

// The oracles of the tests know the schema only: they interpret descriptors that
// are compiled from client.proto, and reach into the structs by reflection.

// message is what every generated struct implements.
type message interface {
	AppendProto(dst []byte) []byte
	SizeProto() int
	UnmarshalProto(data []byte) error
	AppendJSON(dst []byte) ([]byte, error)
	UnmarshalJSON(data []byte) error
}

// roots are the messages that are decoded from outside; the others are below them.
var roots = []func() message{
	func() message { return new(protocol.Command) },
	func() message { return new(protocol.Reply) },
	func() message { return new(protocol.Push) },
	func() message { return new(protocol.EmulationRequest) },
}

var schemaFile = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{".."}}}
	files, err := compiler.Compile(context.Background(), "client.proto")
	if err != nil {
		return nil, err
	}
	return files[0], nil
})

func descriptorOf(t testing.TB, m message) protoreflect.MessageDescriptor {
	t.Helper()
	file, err := schemaFile()
	if err != nil {
		t.Fatal(err)
	}
	d := file.Messages().ByName(protoreflect.Name(reflect.TypeOf(m).Elem().Name()))
	if d == nil {
		t.Fatalf("no %T in the schema", m)
	}
	return d
}

// rawFields are the payloads; every other bytes field is not part of JSON.
func isRaw(d protoreflect.FieldDescriptor) bool {
	return d.Kind() == protoreflect.BytesKind && !isNoJSON(d)
}

func isNoJSON(d protoreflect.FieldDescriptor) bool {
	return d.FullName() == "gyro.client.v2.Dictionary.data" || d.FullName() == "gyro.client.v2.Publication.prev_data"
}

// setFromDynamic sets v, a struct of the package protocol, to what m holds.
func setFromDynamic(v reflect.Value, m protoreflect.Message) {
	m.Range(func(d protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		f := v.Field(d.Index())
		switch {
		case d.IsMap():
			f.Set(reflect.MakeMap(f.Type()))
			value.Map().Range(func(k protoreflect.MapKey, value protoreflect.Value) bool {
				f.SetMapIndex(reflect.ValueOf(k.String()), fromDynamic(f.Type().Elem(), value))
				return true
			})
		case d.IsList():
			for i := range value.List().Len() {
				f.Set(reflect.Append(f, fromDynamic(f.Type().Elem(), value.List().Get(i))))
			}
		default:
			f.Set(fromDynamic(f.Type(), value))
		}
		return true
	})
}

func fromDynamic(t reflect.Type, value protoreflect.Value) reflect.Value {
	if t.Kind() == reflect.Pointer {
		v := reflect.New(t.Elem())
		setFromDynamic(v.Elem(), value.Message())
		return v
	}
	return reflect.ValueOf(value.Interface()).Convert(t)
}

// setFromJSON sets v to what line, which begins with a JSON value, says. It does so by means
// of encoding/json.
func setFromJSON(v reflect.Value, d protoreflect.MessageDescriptor, line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	open, err := dec.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("not an object: %v", open)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		fd := d.Fields().ByName(protoreflect.Name(key.(string)))
		if fd == nil {
			fd = d.Fields().ByName(protoreflect.Name(asciiLower(key.(string))))
		}
		if fd == nil || isNoJSON(fd) {
			continue
		}
		if err := setFieldFromJSON(v.Field(fd.Index()), fd, raw); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

func setFieldFromJSON(f reflect.Value, d protoreflect.FieldDescriptor, raw json.RawMessage) error {
	switch {
	case isRaw(d):
		f.SetBytes(raw)
		return nil
	case d.IsMap() && d.MapValue().Message() != nil:
		return setMapFromJSON(f, d.MapValue().Message(), raw)
	case d.IsList() && d.Message() != nil:
		return setListFromJSON(f, d.Message(), raw)
	case d.Message() != nil && !d.IsMap():
		if string(raw) == "null" {
			return nil
		}
		f.Set(reflect.New(f.Type().Elem()))
		return setFromJSON(f.Elem(), d.Message(), raw)
	}
	if err := json.Unmarshal(raw, f.Addr().Interface()); err != nil {
		return err
	}
	if (d.IsList() || d.IsMap()) && f.Len() == 0 {
		f.SetZero()
	}
	return nil
}

func setMapFromJSON(f reflect.Value, d protoreflect.MessageDescriptor, raw json.RawMessage) error {
	values := make(map[string]json.RawMessage)
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	for key, raw := range values {
		if f.IsNil() {
			f.Set(reflect.MakeMap(f.Type()))
		}
		v := reflect.New(f.Type().Elem().Elem())
		if err := setFromJSON(v.Elem(), d, raw); err != nil {
			return err
		}
		f.SetMapIndex(reflect.ValueOf(key), v)
	}
	return nil
}

func setListFromJSON(f reflect.Value, d protoreflect.MessageDescriptor, raw json.RawMessage) error {
	var values []json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	for _, raw := range values {
		v := reflect.New(f.Type().Elem().Elem())
		if err := setFromJSON(v.Elem(), d, raw); err != nil {
			return err
		}
		f.Set(reflect.Append(f, v))
	}
	return nil
}

// generator makes random messages.
type generator struct {
	*rand.Rand
	// json restricts messages to what travels unchanged on a JSON connection.
	json bool
}

func (g generator) message(v reflect.Value, d protoreflect.MessageDescriptor, depth int) {
	for i := range d.Fields().Len() {
		fd, f := d.Fields().Get(i), v.Field(i)
		if g.IntN(3) > 0 || g.json && isNoJSON(fd) {
			continue
		}
		switch {
		case fd.IsMap():
			f.Set(reflect.MakeMap(f.Type()))
			for range 1 + g.IntN(3) {
				f.SetMapIndex(reflect.ValueOf(g.text()), g.value(f.Type().Elem(), fd.MapValue(), depth))
			}
		case fd.IsList():
			for range 1 + g.IntN(3) {
				f.Set(reflect.Append(f, g.value(f.Type().Elem(), fd, depth)))
			}
		case fd.Message() == nil || depth > 0:
			f.Set(g.value(f.Type(), fd, depth))
		}
	}
}

func (g generator) value(t reflect.Type, d protoreflect.FieldDescriptor, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		if depth > 0 {
			g.message(v.Elem(), d.Message(), depth-1)
		}
	case reflect.String:
		v.SetString(g.text())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.SetBytes([]byte(g.payload()))
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(g.Uint64()) >> g.IntN(64))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(g.Uint64() >> g.IntN(64))
	}
	return v
}

func (g generator) text() string {
	words := []string{"", "a", "news:1", `"quoted\"`, "line\nfeed\r", "\x00\x1f\x7f", "канал", "频道", "\u2028<&>", "😀", strings.Repeat("long ", 40)}
	return words[g.IntN(len(words))] + words[g.IntN(len(words))]
}

func (g generator) payload() string {
	if !g.json {
		return g.text() + "\xff"
	}
	values := []string{`{}`, `{"a":1}`, `null`, `"s\u0000"`, ` [1, 2.5e-3,{"x":[]}]`, `-0`, "[ \t true]", `"` + strings.Repeat("х", 50) + `"`}
	return values[g.IntN(len(values))]
}
