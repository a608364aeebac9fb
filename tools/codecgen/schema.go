package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema is what the generators need to know of a .proto file.
type schema struct {
	messages []*message
}

type message struct {
	name    string
	comment string // leading comment, newline separated
	fields  []*field
	// hasRaw tells that the message or one below it has a raw field, so that
	// encoding it as JSON can fail.
	hasRaw bool
	// bounded tells that there are fields with most.
	bounded bool
	framed  bool // @framed: travels as a frame of its own
	shared  bool // @shared: travels between nodes too, and can be read without copies
}

type shape uint8

const (
	singular shape = iota
	repeated
	mapped // keys are strings
)

type field struct {
	name    string // proto and JSON name
	goName  string
	number  int
	kind    protoreflect.Kind // of the element if repeated, of the value if mapped
	shape   shape
	message string // message name, if kind is MessageKind
	comment string // trailing comment without annotations

	most int // @most=N: readers keep N elements, of all messages that come together
	slot int // number of the field among those with most

	raw    bool // @raw: embedded JSON value
	always bool // @always: JSON key written for zero values too
	noJSON bool // @nojson: not part of the JSON form
}

func loadSchema(ctx context.Context, path string, json bool) (*schema, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(path)}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	s := &schema{}
	descriptors := files[0].Messages()
	for i := range descriptors.Len() {
		m, err := loadMessage(files[0], descriptors.Get(i), json)
		if err != nil {
			return nil, err
		}
		s.messages = append(s.messages, m)
	}
	s.markRaw()
	slots := 0
	for _, m := range s.messages {
		for _, f := range m.fields {
			if f.most > 0 {
				f.slot, m.bounded = slots, true
				slots++
			}
		}
	}
	return s, nil
}

func loadMessage(file protoreflect.FileDescriptor, d protoreflect.MessageDescriptor, json bool) (*message, error) {
	m := &message{
		name:    string(d.Name()),
		comment: strings.TrimSpace(file.SourceLocations().ByDescriptor(d).LeadingComments),
	}
	m.comment, m.shared = strings.CutSuffix(m.comment, "\n @shared")
	m.comment, m.framed = strings.CutSuffix(m.comment, "\n @framed")
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f, err := loadField(fd, file.SourceLocations().ByDescriptor(fd).TrailingComments, json)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fd.FullName(), err)
		}
		m.fields = append(m.fields, f)
	}
	return m, nil
}

func loadField(d protoreflect.FieldDescriptor, comment string, json bool) (*field, error) {
	if d.ContainingOneof() != nil {
		return nil, fmt.Errorf("presence of scalars and oneof are not supported")
	}
	f := &field{
		name:   string(d.Name()),
		goName: goName(string(d.Name())),
		number: int(d.Number()),
		kind:   d.Kind(),
	}
	value := d
	switch {
	case d.IsMap():
		if d.MapKey().Kind() != protoreflect.StringKind {
			return nil, fmt.Errorf("map keys other than strings are not supported")
		}
		f.shape, value = mapped, d.MapValue()
		f.kind = value.Kind()
	case d.IsList():
		f.shape = repeated
	}
	if f.kind == protoreflect.MessageKind {
		f.message = string(value.Message().Name())
	}
	if err := f.annotate(comment); err != nil {
		return nil, err
	}
	return f, f.check(json)
}

// annotate takes the annotations off a trailing comment.
func (f *field) annotate(comment string) error {
	words := strings.Fields(comment)
	for len(words) > 0 && strings.HasPrefix(words[0], "@") {
		switch name, value, _ := strings.Cut(words[0], "="); name {
		case "@most":
			var err error
			if f.most, err = strconv.Atoi(value); err != nil || f.most < 1 {
				return fmt.Errorf("%s: a number is expected", words[0])
			}
		case "@raw":
			f.raw = true
		case "@always":
			f.always = true
		case "@nojson":
			f.noJSON = true
		default:
			return fmt.Errorf("unknown annotation %s", words[0])
		}
		words = words[1:]
	}
	f.comment = strings.Join(words, " ")
	return nil
}

// check refuses what the generators do not know, rather than to generate
// something that is nearly right.
func (f *field) check(json bool) error {
	isBytes := f.kind == protoreflect.BytesKind
	switch {
	case scalars[f.kind] == nil && f.kind != protoreflect.MessageKind:
		return fmt.Errorf("kind %s is not supported", f.kind)
	case f.shape != singular && f.kind != protoreflect.StringKind && f.kind != protoreflect.MessageKind:
		return fmt.Errorf("only strings and messages can be repeated")
	case json && isBytes && f.raw == f.noJSON:
		return fmt.Errorf("bytes are either @raw or @nojson")
	case f.raw && !isBytes:
		return fmt.Errorf("@raw is for bytes")
	case f.most > 0 && f.shape != repeated:
		return fmt.Errorf("@most is for lists")
	case f.always && (f.raw || f.noJSON || f.shape == singular && f.kind == protoreflect.MessageKind):
		return fmt.Errorf("@always is for scalars, lists and maps")
	}
	return nil
}

func (s *schema) markRaw() {
	byName := make(map[string]*message)
	for _, m := range s.messages {
		byName[m.name] = m
	}
	for changed := true; changed; {
		changed = false
		for _, m := range s.messages {
			for _, f := range m.fields {
				if !m.hasRaw && (f.raw || f.message != "" && byName[f.message].hasRaw) {
					m.hasRaw, changed = true, true
				}
			}
		}
	}
}

func (s *schema) hasRaw(name string) bool {
	for _, m := range s.messages {
		if m.name == name {
			return m.hasRaw
		}
	}
	return false
}

var initialisms = map[string]string{"id": "ID", "ttl": "TTL", "rpc": "RPC", "uid": "UID"}

func goName(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		if s, ok := initialisms[part]; ok {
			b.WriteString(s)
			continue
		}
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// scalar tells how a scalar kind is handled in Go.
type scalar struct {
	goType string
	reader string // method of the readers of both encodings
}

var scalars = map[protoreflect.Kind]*scalar{
	protoreflect.BoolKind:   {"bool", "Bool"},
	protoreflect.Int32Kind:  {"int32", "Int32"},
	protoreflect.Int64Kind:  {"int64", "Int64"},
	protoreflect.Sint64Kind: {"int64", "Sint64"},
	protoreflect.Uint32Kind: {"uint32", "Uint32"},
	protoreflect.Uint64Kind: {"uint64", "Uint64"},
	protoreflect.StringKind: {"string", "String"},
	protoreflect.BytesKind:  {"[]byte", "Bytes"},
}

func (f *field) elemType() string {
	if f.message != "" {
		return "*" + f.message
	}
	return scalars[f.kind].goType
}

func (f *field) goType() string {
	switch f.shape {
	case repeated:
		return "[]" + f.elemType()
	case mapped:
		return "map[string]" + f.elemType()
	}
	return f.elemType()
}

// nonZero is the Go condition for v, an expression of the field, to hold a value.
func (f *field) nonZero(v string) string {
	switch {
	case f.shape != singular, f.kind == protoreflect.BytesKind:
		return "len(" + v + ") != 0"
	case f.message != "":
		return v + " != nil"
	case f.kind == protoreflect.BoolKind:
		return v
	case f.kind == protoreflect.StringKind:
		return v + ` != ""`
	}
	return v + " != 0"
}
