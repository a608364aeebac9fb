package main

import (
	"fmt"
	"strings"
)

func generateMethods(p *printer, s *schema) {
	methods := s.methods()
	p.f("// Method tells which request a %s has, or the result of which a message has.", s.methodsOf)
	p.f("type Method uint8")
	p.f("")
	p.f("// Methods, in the order of the schema. A message without any has NoMethod.")
	p.f("const (")
	p.f("NoMethod Method = iota")
	for _, f := range methods {
		p.f("Method%s", f.goName)
	}
	p.f("// NumMethods is the number of values.")
	p.f("NumMethods")
	p.f(")")
	p.f("")
	p.f("var methods = [NumMethods]string{\"\", %s}", quoted(methods))
	p.f("")
	p.f("// String returns the name of the method in the protocol.")
	p.f("func (m Method) String() string { return methods[m] }")
	for _, m := range s.messages {
		if m.methods {
			methodOf(p, m, methods)
		}
		if m.name == s.methodsOf {
			channelOf(p, s, m)
		}
	}
	p.f("")
	p.f("// hidden stands for a secret that is not shown.")
	p.f("const hidden = \"***\"")
	p.f("")
	p.f("func hide(secret string) string {")
	p.f("if secret == \"\" {")
	p.f("return \"\"")
	p.f("}")
	p.f("return hidden")
	p.f("}")
	for _, m := range s.messages {
		if s.hasSecret(m.name, nil) {
			redacted(p, s, m)
		}
	}
}

func (s *schema) methods() (list []*field) {
	for _, f := range s.message(s.methodsOf).fields {
		if f.message != "" && !f.unused {
			list = append(list, f)
		}
	}
	return list
}

func quoted(fields []*field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = fmt.Sprintf("%q", f.name)
	}
	return strings.Join(names, ", ")
}

func methodOf(p *printer, m *message, methods []*field) {
	p.f("")
	p.f("// Method returns the method of the message. If it has several requests or results, the first one counts.")
	p.f("func (m *%s) Method() Method {", m.name)
	p.f("switch {")
	for _, of := range methods {
		for _, f := range m.fields {
			if f.name == of.name {
				p.f("case m.%s != nil:", f.goName)
				p.f("return Method%s", f.goName)
			}
		}
	}
	p.f("}")
	p.f("return NoMethod")
	p.f("}")
}

func channelOf(p *printer, s *schema, m *message) {
	p.f("")
	p.f("// Channel returns the channel that the request of the method is about; empty if it is about none.")
	p.f("func (m *%s) Channel() string {", m.name)
	p.f("switch m.Method() {")
	for _, f := range s.methods() {
		for _, in := range s.message(f.message).fields {
			if in.name == "channel" {
				p.f("case Method%s:", f.goName)
				p.f("return m.%s.%s", f.goName, in.goName)
			}
		}
	}
	p.f("}")
	p.f("return \"\"")
	p.f("}")
}

func (s *schema) hasSecret(name string, above []string) bool {
	m := s.message(name)
	if m == nil {
		return false
	}
	for _, f := range m.fields {
		if f.secret {
			return true
		}
		inside := false
		for _, a := range above {
			inside = inside || a == f.message
		}
		if f.message != "" && f.message != name && !inside && s.hasSecret(f.message, append(above, name)) {
			return true
		}
	}
	return false
}

func redacted(p *printer, s *schema, m *message) {
	p.f("")
	if m.methods {
		p.f("// Redacted returns a copy of m in which every secret is ***.")
		p.f("func (m *%s) Redacted() *%s { return m.redacted() }", m.name, m.name)
		p.f("")
	}
	p.f("func (m *%s) redacted() *%s {", m.name, m.name)
	p.f("if m == nil {")
	p.f("return nil")
	p.f("}")
	p.f("out := *m")
	for _, f := range m.fields {
		part := f.message != "" && s.hasSecret(f.message, nil)
		value := "v.redacted()"
		if f.secret {
			value = "hide(v)"
		}
		switch {
		case !f.secret && !part:
		case f.shape == singular:
			p.f("out.%s = %s", f.goName, strings.Replace(strings.Replace(value, "v.", "m."+f.goName+".", 1), "(v)", "(m."+f.goName+")", 1))
		default:
			p.f("if m.%s != nil {", f.goName)
			p.f("out.%s = make(%s, len(m.%s))", f.goName, f.goType(), f.goName)
			p.f("for k, v := range m.%s {", f.goName)
			p.f("out.%s[k] = %s", f.goName, value)
			p.f("}")
			p.f("}")
		}
	}
	p.f("return &out")
	p.f("}")
}
