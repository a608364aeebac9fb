package main

import "strings"

func generateStructs(p *printer, s *schema) {
	if s.elements > 0 {
		p.f("// MaxElements is how many elements of lists and entries of maps a message that is read")
		p.f("// may have, with all that is in it.")
		p.f("const MaxElements = %d", s.elements)
	}
	for _, m := range s.messages {
		p.f("")
		for line := range strings.SplitSeq(m.comment, "\n") {
			p.f("// %s", strings.TrimSpace(line))
		}
		p.f("type %s struct {", m.name)
		if m.union != "" {
			p.f("// %s is a pointer to the message in question; nil if it is none that is known.", m.union)
			p.f("%s %s", m.union, m.union)
			p.f("// Null tells that null stands for the message in JSON.")
			p.f("Null bool")
		} else {
			structFields(p, m)
		}
		p.f("}")
	}
	rareStructs(p, s)
}

func structFields(p *printer, m *message) {
	for _, f := range m.fields {
		if f.rare == "" {
			structField(p, f)
		}
	}
	if name, _ := m.rare(); name != "" {
		p.f("%s *%s // nil: none", options, name)
	}
	for _, f := range m.fields {
		if f.checked {
			p.f("")
			p.f("// %sChecked says that %s is known to be JSON without line breaks. It is not sent.", f.goName, f.goName)
			p.f("%sChecked bool", f.goName)
		}
	}
	for _, f := range m.fields {
		if f.encoded {
			p.f("")
			p.f("// %sEncoded are further elements of %s, before those, as the encoding in use has them: those of", f.goName, f.goName)
			p.f("// Protobuf with their tags, those of JSON with commas between them. Readers do not set it.")
			p.f("%sEncoded []byte", f.goName)
		}
	}
	if m.bounded {
		p.f("")
		p.f("// %s is set by readers that left out elements, because there were more than they keep.", excess)
		p.f("%s bool", excess)
	}
}

func structField(p *printer, f *field) {
	if f.comment == "" {
		p.f("%s %s", f.goName, f.goType())
	} else {
		p.f("%s %s // %s", f.goName, f.goType(), f.comment)
	}
}

func rareStructs(p *printer, s *schema) {
	printed := make(map[string]bool)
	for _, m := range s.messages {
		name, fields := m.rare()
		if name == "" {
			continue
		}
		if !printed[name] {
			printed[name] = true
			p.f("")
			p.f("// %s are the members of %s that most of them lack.", name, m.name)
			p.f("type %s struct {", name)
			for _, f := range fields {
				structField(p, f)
			}
			p.f("}")
			p.f("")
			p.f("var no%s %s", name, name)
			p.f("")
			p.f("// orNone returns empty ones for nil, which nobody may change.")
			p.f("func (o *%s) orNone() *%s {", name, name)
			p.f("if o == nil {")
			p.f("return &no%s", name)
			p.f("}")
			p.f("return o")
			p.f("}")
		}
		p.f("")
		p.f("func (m *%s) ownOptions() *%s {", m.name, name)
		p.f("if m.%s == nil {", options)
		p.f("m.%s = new(%s)", options, name)
		p.f("}")
		p.f("return m.%s", options)
		p.f("}")
	}
}

const options = "Options"

const excess = "Excess"
