package main

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func generateJSON(p *printer, s *schema) {
	for _, m := range s.messages {
		jsonMethods(p, s, m)
		if m.union != "" {
			jsonAppendUnion(p, s, m)
			jsonFields(p, m)
			jsonReadUnion(p, m)
			continue
		}
		jsonAppend(p, s, m)
		jsonFields(p, m)
		jsonRead(p, m)
	}
}

func jsonMethods(p *printer, s *schema, m *message) {
	p.f("")
	p.f("// AppendJSON appends the JSON form of m, which has no line break.")
	if m.hasRaw {
		p.f("// It fails if a payload is not JSON, and appends nothing then.")
		p.f("func (m *%s) AppendJSON(dst []byte) ([]byte, error) {", m.name)
		p.f("out, err := m.appendJSON(dst)")
		p.f("if err != nil {")
		p.f("return dst, err")
		p.f("}")
		p.f("return out, nil")
		p.f("}")
	} else {
		p.f("// It does not fail.")
		p.f("func (m *%s) AppendJSON(dst []byte) ([]byte, error) { return m.appendJSON(dst), nil }", m.name)
	}
	p.f("")
	p.f("// MarshalJSON implements json.Marshaler.")
	p.f("func (m %s) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil) }", m.name)
	p.f("")
	p.f("// UnmarshalJSON sets m to what the JSON value data says; nothing in m aliases data.")
	p.f("func (m *%s) UnmarshalJSON(data []byte) error {", m.name)
	p.f("*m = %s{}", m.name)
	p.f("r := jsonwire.NewReader(data)")
	boundReader(p, s)
	p.f("m.readJSON(&r)")
	p.f("return r.End()")
	p.f("}")
}

func boundReader(p *printer, s *schema) {
	if s.elements > 0 {
		p.f("r.Bound(MaxElements)")
	}
}

func jsonAppend(p *printer, s *schema, m *message) {
	p.f("")
	if m.hasRaw {
		p.f("func (m *%s) appendJSON(dst []byte) (_ []byte, err error) {", m.name)
	} else {
		p.f("func (m *%s) appendJSON(dst []byte) []byte {", m.name)
	}
	result := func(expr string) string {
		if m.hasRaw {
			return expr + ", nil"
		}
		return expr
	}
	fields := jsonMembers(m)
	if len(fields) == 0 {
		p.f("return append(dst, '{', '}')")
		p.f("}")
		return
	}
	p.f("if m == nil {")
	p.f("return %s", result("append(dst, '{', '}')"))
	p.f("}")
	p.f("dst = append(dst, '{')")
	for _, f := range fields {
		jsonAppendMember(p, s, f)
	}
	p.f("return %s", result("jsonwire.EndObject(dst)"))
	p.f("}")
}

func jsonAppendMember(p *printer, s *schema, f *field) {
	v := f.value()
	switch {
	case f.encoded:
		p.f("if len(%sEncoded) != 0 || %s {", v, f.nonZero(v))
	case !f.always:
		p.f("if %s {", f.nonZero(v))
	}
	p.f("dst = append(dst, `\"%s\":`...)", f.name)
	switch f.shape {
	case singular:
		jsonAppendValue(p, s, f, v)
	case repeated:
		p.f("dst = append(dst, '[')")
		if f.encoded {
			p.f("if len(%sEncoded) != 0 {", v)
			p.f("dst = append(append(dst, %sEncoded...), ',')", v)
			p.f("}")
		}
		rangeOver(p, f, v)
		jsonAppendValue(p, s, f, "v")
		p.f("dst = append(dst, ',')")
		p.f("}")
		p.f("dst = jsonwire.EndArray(dst)")
	case mapped:
		p.f("dst = append(dst, '{')")
		p.f("for k, v := range %s {", v)
		p.f("dst = append(jsonwire.AppendString(dst, k), ':')")
		jsonAppendValue(p, s, f, "v")
		p.f("dst = append(dst, ',')")
		p.f("}")
		p.f("dst = jsonwire.EndObject(dst)")
	}
	p.f("dst = append(dst, ',')")
	if !f.always {
		p.f("}")
	}
}

func rangeOver(p *printer, f *field, list string) {
	if f.byValue() {
		p.f("for i := range %s {", list)
		p.f("v := &%s[i]", list)
		return
	}
	p.f("for _, v := range %s {", list)
}

func jsonAppendUnion(p *printer, s *schema, m *message) {
	p.f("")
	p.f("func (m *%s) appendJSON(dst []byte) (_ []byte, err error) {", m.name)
	p.f("if m == nil || m.Null {")
	p.f("return append(dst, `null`...), nil")
	p.f("}")
	p.f("switch v := m.%s.(type) {", m.union)
	for _, f := range m.fields {
		p.f("case *%s:", f.message)
		p.f("dst = append(dst, `{\"%s\":`...)", f.name)
		jsonAppendValue(p, s, f, "v")
	}
	p.f("default:")
	p.f("dst = append(dst, '{')")
	p.f("}")
	p.f("return append(dst, '}'), nil")
	p.f("}")
}

// null for a member of a union is as if the member were missing, also if it came before.
func jsonReadUnion(p *printer, m *message) {
	p.f("")
	p.f("func (m *%s) readJSON(r *jsonwire.Reader) {", m.name)
	p.f("if m.Null = r.Null(); m.Null {")
	p.f("return")
	p.f("}")
	p.f("var members wire.Union[%s]", m.union)
	jsonSwitch(p, m, func(f *field) {
		p.f("if r.Null() {")
		p.f("members.Set(%d, nil)", m.order(f))
		p.f("continue")
		p.f("}")
		p.f("v := %s", f.newMessage())
		p.f("v.readJSON(r)")
		p.f("members.Set(%d, v)", m.order(f))
	})
	p.f("m.%s = members.First()", m.union)
	p.f("}")
}

func jsonMembers(m *message) []*field {
	var members []*field
	for _, f := range m.fields {
		if !f.noJSON {
			members = append(members, f)
		}
	}
	return members
}

func jsonAppendValue(p *printer, s *schema, f *field, v string) {
	switch {
	case f.message != "" && s.hasRaw(f.message):
		p.f("if dst, err = %s.appendJSON(dst); err != nil {", v)
		p.f("return nil, err")
		p.f("}")
	case f.message != "":
		p.f("dst = %s.appendJSON(dst)", v)
	case f.raw:
		if f.checked {
			p.f("if m.%sChecked {", f.goName)
			p.f("dst = append(dst, %s...)", v)
			p.f("} else")
		}
		p.f("if dst, err = jsonwire.AppendRaw(dst, %s); err != nil {", v)
		p.f("return nil, fmt.Errorf(\"%s: %%w\", err)", f.name)
		p.f("}")
	case f.kind == protoreflect.StringKind:
		p.f("dst = jsonwire.AppendString(dst, %s)", v)
	case f.kind == protoreflect.BoolKind:
		p.f("dst = strconv.AppendBool(dst, %s)", v)
	case f.kind == protoreflect.Uint32Kind, f.kind == protoreflect.Uint64Kind:
		p.f("dst = jsonwire.AppendUint(dst, uint64(%s))", v)
	case f.kind == protoreflect.DoubleKind:
		p.f("dst = jsonwire.AppendDouble(dst, %s)", v)
	default:
		p.f("dst = strconv.AppendInt(dst, int64(%s), 10)", v)
	}
}

func jsonFields(p *printer, m *message) {
	fields := jsonMembers(m)
	if len(fields) == 0 {
		return
	}
	p.f("")
	p.f("func %s(key []byte) int {", fieldFunc(m))
	p.f("switch string(key) {")
	for _, f := range fields {
		p.f("case %q:", f.name)
		p.f("return %d", f.number)
	}
	p.f("}")
	p.f("return 0")
	p.f("}")
}

func fieldFunc(m *message) string {
	return strings.ToLower(m.name[:1]) + m.name[1:] + "Field"
}

func jsonRead(p *printer, m *message) {
	p.f("")
	p.f("func (m *%s) readJSON(r *jsonwire.Reader) {", m.name)
	jsonSwitch(p, m, func(f *field) { jsonReadField(p, f) })
	p.f("}")
}

// jsonSwitch prints the loop over the members of an object; read prints the reading of a field.
func jsonSwitch(p *printer, m *message, read func(*field)) {
	p.f("for ok := r.Object(); ok; ok = r.NextMember() {")
	fields := jsonMembers(m)
	if len(fields) == 0 {
		p.f("r.Skip()")
		p.f("}")
		return
	}
	p.f("field := %s(r.Key())", fieldFunc(m))
	p.f("if field == 0 {")
	p.f("field = %s(r.FoldedKey())", fieldFunc(m))
	p.f("}")
	p.f("switch field {")
	for _, f := range fields {
		p.f("case %d: // %s", f.number, f.name)
		read(f)
	}
	p.f("default:")
	p.f("r.Skip()")
	p.f("}")
	p.f("}")
}

func jsonReadField(p *printer, f *field) {
	target := f.target()
	switch f.shape {
	case singular:
		if f.message != "" {
			p.f("if !r.Null() {")
			p.f("%s = %s", target, f.newMessage())
			p.f("%s.readJSON(r)", target)
			p.f("}")
			return
		}
		p.f("r.%s(&%s)", jsonReader(f), target)
	case repeated:
		p.f("%s = nil", target)
		if f.many {
			p.f("r.Share()")
			p.f("start := r.Pos()")
		}
		p.f("for ok := r.Array(); ok; ok = r.NextElement() {")
		if f.most > 0 {
			p.f("if !r.Keep(%d, %d) {", f.slot, f.most)
			p.f("m.%s = true", excess)
			p.f("r.Skip()")
			p.f("continue")
			p.f("}")
		}
		if f.many {
			extend(p, target, "r.Pos()-start")
			if f.message != "" {
				p.f("v.readJSON(r)")
			} else {
				p.f("r.%s(v)", jsonReader(f))
			}
		} else {
			jsonReadElement(p, f)
			p.f("%s = append(%s, v)", target, target)
		}
		p.f("}")
	case mapped:
		p.f("for ok := r.Object(); ok; ok = r.NextMember() {")
		p.f("key := r.Entry()")
		jsonReadElement(p, f)
		p.f("if %s == nil {", target)
		p.f("%s = make(%s)", target, f.goType())
		p.f("}")
		p.f("%s[key] = v", target)
		p.f("}")
	}
}

func extend(p *printer, list, read string) {
	p.f("%s = wire.Extend(&r.Maker, %s, %s, r.Left())", list, list, read)
	p.f("v := &%s[len(%s)-1]", list, list)
}

// jsonReadElement reads into v. A null element is an empty one, never nil.
func jsonReadElement(p *printer, f *field) {
	if f.message != "" {
		p.f("v := new(%s)", f.message)
		p.f("v.readJSON(r)")
		return
	}
	p.f("var v %s", f.elemType())
	p.f("r.%s(&v)", jsonReader(f))
}

func jsonReader(f *field) string {
	switch {
	case f.raw && f.many:
		return "SharedRaw"
	case f.raw:
		return "Raw"
	case f.many:
		return "SharedString"
	case f.kind == protoreflect.Sint64Kind:
		return "Int64"
	}
	return scalars[f.kind].reader
}
