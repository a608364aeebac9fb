package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func generateProtobuf(p *printer, s *schema) {
	for _, m := range s.messages {
		protoMethods(p, s, m)
		if m.union != "" {
			protoUnion(p, m)
			continue
		}
		protoSize(p, m)
		protoPut(p, m)
		protoRead(p, s, m)
		for _, f := range m.fields {
			if f.shape == mapped {
				protoReadEntry(p, m, f)
			}
		}
	}
}

func protoMethods(p *printer, s *schema, m *message) {
	p.f("")
	p.f("// AppendProto appends the Protobuf form of m, without a length.")
	p.f("func (m *%s) AppendProto(dst []byte) []byte {", m.name)
	p.f("size := m.SizeProto()")
	p.f("end := len(dst) + size")
	p.f("dst = slices.Grow(dst, size)[:end]")
	p.f("m.putProto(dst, end)")
	p.f("return dst")
	p.f("}")
	if m.framed {
		p.f("")
		p.f("// AppendDelimited appends the Protobuf form of m behind its length, which is how")
		p.f("// it travels in a frame.")
		p.f("func (m *%s) AppendDelimited(dst []byte) []byte {", m.name)
		p.f("size := m.SizeProto()")
		p.f("end := len(dst) + pbwire.SizeBytes(size)")
		p.f("dst = slices.Grow(dst, end-len(dst))[:end]")
		p.f("pbwire.PutVarint(dst, m.putProto(dst, end), uint64(size))")
		p.f("return dst")
		p.f("}")
	}
	p.f("")
	p.f("// UnmarshalProto sets m to what the Protobuf message data says; nothing in m")
	p.f("// aliases data.")
	p.f("func (m *%s) UnmarshalProto(data []byte) error {", m.name)
	p.f("*m = %s{}", m.name)
	p.f("r := pbwire.NewReader(data)")
	boundReader(p, s)
	p.f("m.readProto(&r)")
	p.f("return r.Err()")
	p.f("}")
	if m.shared {
		p.f("")
		p.f("// BorrowProto is UnmarshalProto without copies: strings and bytes in m are parts of")
		p.f("// data, which must never change again.")
		p.f("func (m *%s) BorrowProto(data []byte) error {", m.name)
		p.f("*m = %s{}", m.name)
		p.f("r := pbwire.NewBorrowingReader(data)")
		p.f("m.readProto(&r)")
		p.f("return r.Err()")
		p.f("}")
	}
}

func (f *field) wireType() protowire.Type {
	if f.shape != singular || f.message != "" || f.kind == protoreflect.StringKind || f.kind == protoreflect.BytesKind {
		return protowire.BytesType
	}
	if f.kind == protoreflect.DoubleKind {
		return protowire.Fixed64Type
	}
	return protowire.VarintType
}

func (f *field) tag() uint64 {
	return protowire.EncodeTag(protowire.Number(f.number), f.wireType())
}

func (f *field) elementTag() uint64 {
	return protowire.EncodeTag(2, f.wireType())
}

func (f *field) varint(v string) string {
	if f.kind == protoreflect.Sint64Kind {
		return "pbwire.Zigzag(" + v + ")"
	}
	return "uint64(" + v + ")"
}

func protoSize(p *printer, m *message) {
	p.f("")
	p.f("// SizeProto returns the number of bytes that AppendProto appends.")
	p.f("func (m *%s) SizeProto() (n int) {", m.name)
	if len(m.fields) > 0 {
		p.f("if m == nil {")
		p.f("return 0")
		p.f("}")
	}
	for _, f := range m.fields {
		v, tag := f.value(), protowire.SizeVarint(f.tag())
		switch f.shape {
		case singular:
			p.f("if %s {", f.nonZero(v))
			p.f("n += %d + %s", tag, f.valueSize(v))
		case repeated:
			rangeOver(p, f, v)
			p.f("n += %d + %s", tag, f.valueSize("v"))
		case mapped:
			p.f("for k, v := range %s {", v)
			p.f("n += %d + pbwire.SizeBytes(2 + pbwire.SizeBytes(len(k)) + %s)", tag, f.valueSize("v"))
		}
		p.f("}")
		if f.encoded {
			p.f("n += len(%sEncoded)", v)
		}
	}
	p.f("return n")
	p.f("}")
}

func (f *field) valueSize(v string) string {
	switch {
	case f.message != "":
		return "pbwire.SizeBytes(" + v + ".SizeProto())"
	case f.wireType() == protowire.BytesType:
		return "pbwire.SizeBytes(len(" + v + "))"
	case f.kind == protoreflect.BoolKind:
		return "1"
	case f.kind == protoreflect.DoubleKind:
		return "8"
	}
	return "pbwire.SizeVarint(" + f.varint(v) + ")"
}

func protoPut(p *printer, m *message) {
	p.f("")
	p.f("func (m *%s) putProto(buf []byte, i int) int {", m.name)
	if len(m.fields) > 0 {
		p.f("if m == nil {")
		p.f("return i")
		p.f("}")
	}
	for _, f := range slices.Backward(m.fields) {
		v := f.value()
		switch f.shape {
		case singular:
			p.f("if %s {", f.nonZero(v))
			putValue(p, f, v)
			putTag(p, f.tag())
		case repeated:
			if f.byValue() {
				p.f("for at := range slices.Backward(%s) {", v)
				p.f("v := &%s[at]", v)
			} else {
				p.f("for _, v := range slices.Backward(%s) {", v)
			}
			putValue(p, f, "v")
			putTag(p, f.tag())
		case mapped:
			p.f("for k, v := range %s {", v)
			p.f("end := i")
			putValue(p, f, "v")
			putTag(p, f.elementTag())
			p.f("i = pbwire.PutString(buf, i, k)")
			putTag(p, protowire.EncodeTag(1, protowire.BytesType))
			p.f("i = pbwire.PutVarint(buf, i, uint64(end-i))")
			putTag(p, f.tag())
		}
		p.f("}")
		if f.encoded {
			p.f("i -= len(%sEncoded)", v)
			p.f("copy(buf[i:], %sEncoded)", v)
		}
	}
	p.f("return i")
	p.f("}")
}

func putValue(p *printer, f *field, v string) {
	switch {
	case f.message != "" && f.shape == singular:
		p.f("end := i")
		p.f("i = %s.putProto(buf, i)", v)
		p.f("i = pbwire.PutVarint(buf, i, uint64(end-i))")
	case f.message != "":
		p.f("last := i")
		p.f("i = %s.putProto(buf, i)", v)
		p.f("i = pbwire.PutVarint(buf, i, uint64(last-i))")
	case f.kind == protoreflect.StringKind:
		p.f("i = pbwire.PutString(buf, i, %s)", v)
	case f.kind == protoreflect.BytesKind:
		p.f("i = pbwire.PutBytes(buf, i, %s)", v)
	case f.kind == protoreflect.BoolKind:
		p.f("i--")
		p.f("buf[i] = 1")
	case f.kind == protoreflect.DoubleKind:
		p.f("i = pbwire.PutDouble(buf, i, %s)", v)
	default:
		p.f("i = pbwire.PutVarint(buf, i, %s)", f.varint(v))
	}
}

func putTag(p *printer, tag uint64) {
	if tag < 0x80 {
		p.f("i--")
		p.f("buf[i] = %#02x", tag)
		return
	}
	p.f("i = pbwire.PutVarint(buf, i, %#02x)", tag)
}

func protoRead(p *printer, s *schema, m *message) {
	p.f("")
	p.f("func (m *%s) readProto(r *pbwire.Reader) {", m.name)
	protoSwitch(p, m, func(f *field) {
		if s.elements > 0 && f.shape != singular {
			p.f("r.Element()")
		}
		protoReadField(p, f)
	})
	p.f("}")
}

// protoSwitch prints the loop over the fields of a message; read prints the reading of a field.
func protoSwitch(p *printer, m *message, read func(*field)) {
	p.f("for r.Next() {")
	if len(m.fields) == 0 {
		p.f("r.Skip()")
		p.f("}")
		return
	}
	p.f("switch r.Tag() {")
	for _, f := range m.fields {
		p.f("case %#02x: // %s = %d", f.tag(), f.name, f.number)
		read(f)
	}
	p.f("default:")
	p.f("r.Skip()")
	p.f("}")
	p.f("}")
}

func protoReadField(p *printer, f *field) {
	target := f.target()
	if f.most > 0 {
		p.f("if !r.Keep(%d, %d) {", f.slot, f.most)
		p.f("m.%s = true", excess)
		p.f("r.Skip()")
		p.f("continue")
		p.f("}")
	}
	switch {
	case f.shape == mapped:
		p.f("m.%s(r)", entryFunc(f))
	case f.shape == repeated && f.many:
		p.f("r.Share()")
		extend(p, target, "r.Pos()")
		if f.message != "" {
			readMessage(p, "v")
		} else {
			p.f("*v = r.%s()", f.protoReader())
		}
	case f.shape == repeated && f.message != "":
		p.f("v := new(%s)", f.message)
		readMessage(p, "v")
		p.f("%s = append(%s, v)", target, target)
	case f.shape == repeated:
		p.f("%s = append(%s, r.%s())", target, target, f.protoReader())
	case f.message != "":
		p.f("if %s == nil { // else it is merged", target)
		p.f("%s = %s", target, f.newMessage())
		p.f("}")
		readMessage(p, target)
	default:
		p.f("%s = r.%s()", target, f.protoReader())
	}
}

func (f *field) protoReader() string {
	if f.many {
		return "Shared" + scalars[f.kind].reader
	}
	return scalars[f.kind].reader
}

func protoUnion(p *printer, m *message) {
	p.f("")
	p.f("// SizeProto returns the number of bytes that AppendProto appends.")
	p.f("func (m *%s) SizeProto() int {", m.name)
	p.f("switch v := m.%s.(type) {", m.union)
	for _, f := range m.fields {
		p.f("case *%s:", f.message)
		p.f("return %d + %s", protowire.SizeVarint(f.tag()), f.valueSize("v"))
	}
	p.f("}")
	p.f("return 0")
	p.f("}")
	p.f("")
	p.f("func (m *%s) putProto(buf []byte, i int) int {", m.name)
	p.f("switch v := m.%s.(type) {", m.union)
	for _, f := range m.fields {
		p.f("case *%s:", f.message)
		putValue(p, f, "v")
		putTag(p, f.tag())
	}
	p.f("}")
	p.f("return i")
	p.f("}")
	p.f("")
	p.f("func (m *%s) readProto(r *pbwire.Reader) {", m.name)
	p.f("var members wire.Union[%s]", m.union)
	protoSwitch(p, m, func(f *field) {
		p.f("v, _ := members.Get(%d).(*%s)", m.order(f), f.message)
		p.f("if v == nil { // else it is merged")
		p.f("v = %s", f.newMessage())
		p.f("}")
		readMessage(p, "v")
		p.f("members.Set(%d, v)", m.order(f))
	})
	p.f("m.%s = members.First()", m.union)
	p.f("}")
}

func readMessage(p *printer, v string) {
	p.f("outer := r.Enter()")
	p.f("%s.readProto(r)", v)
	p.f("r.Leave(outer)")
}

func entryFunc(f *field) string {
	return fmt.Sprintf("read%sProto", strings.ToUpper(f.goName[:1])+f.goName[1:])
}

func protoReadEntry(p *printer, m *message, f *field) {
	p.f("")
	p.f("func (m *%s) %s(r *pbwire.Reader) {", m.name, entryFunc(f))
	p.f("var key string")
	if f.message != "" {
		p.f("value := new(%s)", f.message)
	} else {
		p.f("var value %s", f.elemType())
	}
	p.f("entry := r.Enter()")
	p.f("for r.Next() {")
	p.f("switch r.Tag() {")
	p.f("case 0x0a:")
	p.f("key = r.String()")
	p.f("case %#02x:", f.elementTag())
	if f.message != "" {
		readMessage(p, "value")
	} else {
		p.f("value = r.%s()", scalars[f.kind].reader)
	}
	p.f("default:")
	p.f("r.Skip()")
	p.f("}")
	p.f("}")
	p.f("r.Leave(entry)")
	p.f("if %s == nil {", f.target())
	p.f("%s = make(%s)", f.target(), f.goType())
	p.f("}")
	p.f("%s[key] = value", f.target())
	p.f("}")
}
