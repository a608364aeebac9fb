package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// schema has the facts from a .proto file that the generators use.
type schema struct {
	file     protoreflect.FileDescriptor
	messages []*message
	service  string // full name; "" if there is none
	rpcs     []rpc
	elements int // bound of readers; 0 is none
	// methodsOf is the first message with @methods, or empty.
	methodsOf string
}

type rpc struct {
	name, request string
	// result is the message in the field "result" of the response, or else the response.
	result string
	// wrapped tells that there is such a field.
	wrapped bool
	comment string // leading comment, on one line
}

type message struct {
	name    string
	comment string // leading comment without annotations, newline separated
	fields  []*field
	union   string // @union: interface for its members
	// hasRaw: the message or a part of it has a raw field, so that encoding it as JSON can fail.
	hasRaw  bool
	bounded bool
	methods bool // @methods: has the request or the result of a method
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

	many bool // @many: in shared memory, and by value in a list
	most int  // @most=N: readers keep N elements, of all messages that come together
	slot int  // number of the field among the fields with most

	rare string // @rare=T: in the struct T

	unused bool // @unused: no method, in a message with @methods
	secret bool // @secret: not shown to operators

	raw      bool // @raw: embedded JSON value
	checked  bool // @checked: a bool says that the bytes are JSON without line breaks
	encoded  bool // @encoded: writers also take elements that are encoded already
	always   bool // @always: JSON key written for zero values too
	required bool
	noJSON   bool // @nojson: not part of the JSON form
}

func loadSchema(ctx context.Context, path string, o Options) (*schema, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(path)}},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, filepath.Base(path))
	if err != nil {
		return nil, err
	}
	s := &schema{file: files[0]}
	descriptors := files[0].Messages()
	for i := range descriptors.Len() {
		m, err := loadMessage(files[0], descriptors.Get(i), o.JSON)
		if err != nil {
			return nil, err
		}
		if m != nil {
			s.messages = append(s.messages, m)
			if m.methods {
				s.methodsOf = cmp.Or(s.methodsOf, m.name)
			}
		}
	}
	if o.Service {
		if err := s.loadServices(files[0]); err != nil {
			return nil, err
		}
	}
	if err := s.checkUnions(); err != nil {
		return nil, err
	}
	if err := s.checkRare(); err != nil {
		return nil, err
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

func (s *schema) loadServices(file protoreflect.FileDescriptor) error {
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		if s.service != "" {
			return fmt.Errorf("%s: there is a service already", service.FullName())
		}
		s.service = string(service.FullName())
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			if m.IsStreamingClient() || m.IsStreamingServer() {
				return fmt.Errorf("%s: streams are not supported", m.FullName())
			}
			r := rpc{name: string(m.Name()), request: string(m.Input().Name()), result: string(m.Output().Name())}
			if f := m.Output().Fields().ByName("result"); f != nil {
				r.result, r.wrapped = string(f.Message().Name()), true
			}
			r.comment = strings.Join(strings.Fields(file.SourceLocations().ByDescriptor(m).LeadingComments), " ")
			s.rpcs = append(s.rpcs, r)
		}
	}
	return nil
}

// checkUnions refuses unions outside of lists: readers would not merge two of them.
func (s *schema) checkUnions() error {
	for _, m := range s.messages {
		for _, f := range m.fields {
			if union := s.message(f.message); union != nil && union.union != "" && f.shape != repeated {
				return fmt.Errorf("%s.%s: a union has to be in a list", m.name, f.name)
			}
		}
	}
	return nil
}

// checkRare refuses messages that share a struct but differ in its fields, or use two.
func (s *schema) checkRare() error {
	first := make(map[string]*message)
	for _, m := range s.messages {
		name, fields := m.rare()
		if name == "" {
			continue
		}
		if first[name] == nil {
			first[name] = m
		}
		_, want := first[name].rare()
		if !slices.EqualFunc(fields, want, func(a, b *field) bool {
			return a.rare == b.rare && a.name == b.name && a.goType() == b.goType()
		}) {
			return fmt.Errorf("%s: the fields with @rare are not those of %s", m.name, first[name].name)
		}
	}
	return nil
}

// rare returns the fields with @rare and the name of their struct; "" if there are none.
func (m *message) rare() (name string, fields []*field) {
	for _, f := range m.fields {
		if f.rare != "" {
			fields = append(fields, f)
		}
	}
	if len(fields) > 0 {
		name = fields[0].rare
	}
	return name, fields
}

// message returns nil for an unknown name.
func (s *schema) message(name string) *message {
	for _, m := range s.messages {
		if m.name == name {
			return m
		}
	}
	return nil
}

// loadMessage returns nil for a message without code.
func loadMessage(file protoreflect.FileDescriptor, d protoreflect.MessageDescriptor, json bool) (*message, error) {
	m := &message{name: string(d.Name())}
	var lines []string
	for line := range strings.Lines(file.SourceLocations().ByDescriptor(d).LeadingComments) {
		line = strings.TrimSpace(line)
		switch name, value, _ := strings.Cut(line, "="); {
		case name == "@framed":
			m.framed = true
		case name == "@methods":
			m.methods = true
		case name == "@shared":
			m.shared = true
		case name == "@union":
			m.union = value
		case name == "@nocode":
			return nil, nil
		case strings.HasPrefix(name, "@"):
			return nil, fmt.Errorf("%s: unknown annotation %s", d.FullName(), line)
		default:
			lines = append(lines, line)
		}
	}
	m.comment = strings.TrimSpace(strings.Join(lines, "\n"))
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f, err := loadField(fd, file.SourceLocations().ByDescriptor(fd).TrailingComments, json)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fd.FullName(), err)
		}
		if m.union != "" && (f.message == "" || f.shape != singular) {
			return nil, fmt.Errorf("%s: the members of a union are messages", fd.FullName())
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
		case "@unused":
			f.unused = true
		case "@secret":
			f.secret = true
		case "@many":
			f.many = true
		case "@rare":
			f.rare = value
		case "@encoded":
			f.encoded = true
		case "@raw":
			f.raw = true
		case "@checked":
			f.checked = true
		case "@always":
			f.always = true
		case "@nojson":
			f.noJSON = true
		case "@required":
			f.required = true
		default:
			return fmt.Errorf("unknown annotation %s", words[0])
		}
		words = words[1:]
	}
	f.comment = strings.Join(words, " ")
	return nil
}

// check refuses fields that the generators do not know, so that they generate nothing that is only nearly right.
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
	case f.checked && (!f.raw || f.always):
		return fmt.Errorf("@checked is for @raw without @always")
	case f.many && (f.shape == mapped || f.most > 0 || f.shape == singular && f.message == "" && f.kind != protoreflect.StringKind && !isBytes):
		return fmt.Errorf("@many is for strings, bytes, messages, and lists without @most")
	case f.encoded && (f.shape != repeated || f.message == "" || f.many || f.always || f.rare != ""):
		return fmt.Errorf("@encoded is for lists of messages without @many, @always and @rare")
	case f.rare != "" && (f.many || f.most > 0):
		return fmt.Errorf("@rare does not go with @many or @most")
	case f.secret && (f.kind != protoreflect.StringKind || f.rare != ""):
		return fmt.Errorf("@secret is for strings without @rare")
	case f.most > 0 && f.shape != repeated:
		return fmt.Errorf("@most is for lists")
	case f.always && (f.raw || f.noJSON || f.shape == singular && f.kind == protoreflect.MessageKind):
		return fmt.Errorf("@always is for scalars, lists and maps")
	}
	return nil
}

func (s *schema) markRaw() {
	for changed := true; changed; {
		changed = false
		for _, m := range s.messages {
			for _, f := range m.fields {
				if !m.hasRaw && (f.raw || f.message != "" && s.hasRaw(f.message)) {
					m.hasRaw, changed = true, true
				}
			}
		}
	}
}

func (s *schema) hasRaw(name string) bool { return s.message(name).hasRaw }

var initialisms = map[string]string{
	"id": "ID", "ttl": "TTL", "rpc": "RPC", "uid": "UID", "cpu": "CPU", "rss": "RSS", "b64data": "B64Data", "b64info": "B64Info",
}

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
	protoreflect.DoubleKind: {"float64", "Double"},
	protoreflect.StringKind: {"string", "String"},
	protoreflect.BytesKind:  {"[]byte", "Bytes"},
}

func (f *field) value() string {
	if f.rare != "" {
		return "m." + options + ".orNone()." + f.goName
	}
	return "m." + f.goName
}

func (f *field) target() string {
	if f.rare != "" {
		return "m.ownOptions()." + f.goName
	}
	return "m." + f.goName
}

// byValue tells that f is a list of messages, not of pointers to them.
func (f *field) byValue() bool { return f.many && f.shape == repeated && f.message != "" }

func (f *field) elemType() string {
	switch {
	case f.byValue():
		return f.message
	case f.message != "":
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

func (f *field) newMessage() string {
	if f.many {
		return "wire.New[" + f.message + "](&r.Maker)"
	}
	return "new(" + f.message + ")"
}

func (m *message) order(f *field) int { return slices.Index(m.fields, f) }

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
