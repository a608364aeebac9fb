package main

import "strings"

func generateStructs(p *printer, s *schema) {
	for _, m := range s.messages {
		p.f("")
		for line := range strings.SplitSeq(m.comment, "\n") {
			p.f("// %s", strings.TrimSpace(line))
		}
		p.f("type %s struct {", m.name)
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
		p.f("}")
	}
}

// excess is the field that tells of elements above @most.
const excess = "Excess"
