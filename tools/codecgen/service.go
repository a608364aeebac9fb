package main

import (
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// generateService prints a Method for each rpc, and a function that calls the service with a request of any type.
func generateService(p *printer, s *schema) {
	p.f("")
	p.f("// ServiceName is the name of the service in gRPC.")
	p.f("const ServiceName = %q", s.service)
	p.f("")
	p.f("// Method is a method of the service %s.", s.service)
	p.f("type Method uint8")
	p.f("")
	p.f("// Methods, in the order of the schema.")
	p.f("const (")
	for i, r := range s.rpcs {
		if i == 0 {
			p.f("Method%s Method = iota", r.name)
		} else {
			p.f("Method%s", r.name)
		}
	}
	p.f(")")
	p.f("")
	p.f("var methodNames = [...]string{")
	for _, r := range s.rpcs {
		p.f("Method%s: %q,", r.name, snakeCase(r.name))
	}
	p.f("}")
	p.f("")
	p.f("// RPC returns the name in gRPC of the method, one of the constants.")
	p.f("func (m Method) RPC() string { return rpcNames[m] }")
	p.f("")
	p.f("var rpcNames = [...]string{")
	for _, r := range s.rpcs {
		p.f("Method%s: %q,", r.name, r.name)
	}
	p.f("}")
	p.f("")
	p.f("// NewRequest returns an empty request of the method, one of the constants.")
	p.f("func (m Method) NewRequest() Request { return newRequests[m]() }")
	p.f("")
	p.f("var newRequests = [...]func() Request{")
	for _, r := range s.rpcs {
		p.f("Method%s: func() Request { return new(%s) },", r.name, r.request)
	}
	p.f("}")
	p.f("")
	p.f("// Service executes requests. Its methods may be called from any goroutine.")
	p.f("type Service interface {")
	for _, r := range s.rpcs {
		p.f("%s(ctx context.Context, r *%s) (*%s, error)", r.name, r.request, r.result)
	}
	p.f("}")
	generateRequests(p, s)
}

func generateRequests(p *printer, s *schema) {
	for _, r := range s.rpcs {
		p.f("")
		p.f("func (m *%s) execute(ctx context.Context, s Service) (Result, error) {", r.request)
		p.f("return s.%s(ctx, m)", r.name)
		p.f("}")
		p.f("")
		receiver, channel := "", `""`
		if s.message(r.request).namesChannel() {
			receiver, channel = "m ", "m.Channel"
		}
		p.f("func (%s*%s) target() (Method, string) { return Method%s, %s }", receiver, r.request, r.name, channel)
	}
}

// namesChannel tells whether a request has a field with the name of one channel.
func (m *message) namesChannel() bool {
	return slices.ContainsFunc(m.fields, func(f *field) bool {
		return f.name == "channel" && f.kind == protoreflect.StringKind && f.shape == singular
	})
}

// snakeCase is the name of a method in JSON: presence_stats for PresenceStats, rpc for RPC.
func snakeCase(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && unicode.IsUpper(c) && unicode.IsLower(rune(name[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
