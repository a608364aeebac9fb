package main

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func generateJSON(p *printer, s *schema) {
	p.f(`import (`)
	p.f(`"fmt"`)
	p.f(`"strconv"`)
	p.f("")
	p.f(`"github.com/gyrohq/gyro/protocol/internal/jsonwire"`)
	p.f(`)`)
	for _, m := range s.messages {
		jsonMethods(p, m)
		jsonAppend(p, s, m)
		jsonFields(p, m)
		jsonRead(p, m)
	}
}

// jsonMethods prints the exported methods.
func jsonMethods(p *printer, m *message) {
	p.f("")
	p.f("// AppendJSON appends the JSON form of m, which has no line break.")
	if m.hasRaw {
		p.f("// It fails if a payload is not JSON; the result is nil then.")
		p.f("func (m *%s) AppendJSON(dst []byte) ([]byte, error) { return m.appendJSON(dst) }", m.name)
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
	p.f("m.readJSON(&r)")
	p.f("return r.End()")
	p.f("}")
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
		v := "m." + f.goName
		if !f.always {
			p.f("if %s {", f.nonZero(v))
		}
		p.f("dst = append(dst, `\"%s\":`...)", f.name)
		switch f.shape {
		case singular:
			jsonAppendValue(p, s, f, v)
		case repeated:
			p.f("dst = append(dst, '[')")
			p.f("for _, v := range %s {", v)
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
	p.f("return %s", result("jsonwire.EndObject(dst)"))
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
		p.f("if dst, err = jsonwire.AppendRaw(dst, %s); err != nil {", v)
		p.f("return nil, fmt.Errorf(\"%s: %%w\", err)", f.name)
		p.f("}")
	case f.kind == protoreflect.StringKind:
		p.f("dst = jsonwire.AppendString(dst, %s)", v)
	case f.kind == protoreflect.BoolKind:
		p.f("dst = strconv.AppendBool(dst, %s)", v)
	case f.kind == protoreflect.Uint32Kind, f.kind == protoreflect.Uint64Kind:
		p.f("dst = jsonwire.AppendUint(dst, uint64(%s))", v)
	default:
		p.f("dst = strconv.AppendInt(dst, int64(%s), 10)", v)
	}
}

// jsonFields prints the function that finds the field of a key.
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
	p.f("for ok := r.Object(); ok; ok = r.NextMember() {")
	fields := jsonMembers(m)
	if len(fields) == 0 {
		p.f("r.Skip()")
		p.f("}")
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
		jsonReadField(p, f)
	}
	p.f("default:")
	p.f("r.Skip()")
	p.f("}")
	p.f("}")
	p.f("}")
}

func jsonReadField(p *printer, f *field) {
	target := "m." + f.goName
	switch f.shape {
	case singular:
		if f.message != "" {
			p.f("if !r.Null() {")
			p.f("%s = new(%s)", target, f.message)
			p.f("%s.readJSON(r)", target)
			p.f("}")
			return
		}
		p.f("r.%s(&%s)", jsonReader(f), target)
	case repeated:
		p.f("%s = nil", target)
		p.f("for ok := r.Array(); ok; ok = r.NextElement() {")
		if f.most > 0 {
			p.f("if !r.Keep(%d, %d) {", f.slot, f.most)
			p.f("m.%s = true", excess)
			p.f("r.Skip()")
			p.f("continue")
			p.f("}")
		}
		jsonReadElement(p, f)
		p.f("%s = append(%s, v)", target, target)
		p.f("}")
	case mapped:
		p.f("for ok := r.Object(); ok; ok = r.NextMember() {")
		p.f("key := string(r.Key())")
		jsonReadElement(p, f)
		p.f("if %s == nil {", target)
		p.f("%s = make(%s)", target, f.goType())
		p.f("}")
		p.f("%s[key] = v", target)
		p.f("}")
	}
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
	case f.raw:
		return "Raw"
	case f.kind == protoreflect.Sint64Kind:
		return "Int64"
	}
	return scalars[f.kind].reader
}
