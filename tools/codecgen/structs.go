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
}

func structFields(p *printer, m *message) {
	for _, f := range m.fields {
		if f.comment == "" {
			p.f("%s %s", f.goName, f.goType())
		} else {
			p.f("%s %s // %s", f.goName, f.goType(), f.comment)
		}
	}
	if m.bounded {
		p.f("")
		p.f("// %s is set by readers that left out elements, because there were more than they keep.", excess)
		p.f("%s bool", excess)
	}
}

// excess is the field that tells of elements above @most.
const excess = "Excess"
