package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// place is the line of a template that the messages replace, and methods that for a table of the methods.
const (
	place   = "{{reference}}\n"
	methods = "{{methods}}\n"
)

func generateReference(s *schema, template string) (map[string][]byte, error) {
	text, err := os.ReadFile(template)
	if err != nil {
		return nil, err
	}
	before, after, found := strings.Cut(string(text), place)
	if !found {
		return nil, fmt.Errorf("%s has no line %s", template, strings.TrimSpace(place))
	}
	var sections []string
	for _, m := range s.messages {
		sections = append(sections, m.section())
	}
	page := strings.Replace(before, methods, s.table(), 1) + strings.Join(sections, "\n") + after
	return map[string][]byte{strings.TrimSuffix(filepath.Base(template), ".tmpl"): []byte(page)}, nil
}

func (s *schema) table() string {
	var b strings.Builder
	b.WriteString("| Method | gRPC | Request | Result | |\n|---|---|---|---|---|\n")
	for _, r := range s.rpcs {
		fmt.Fprintf(&b, "| `%s` | `%s` | [%s](#%s) | [%s](#%s) | %s |\n", snakeCase(r.name), r.name,
			r.request, strings.ToLower(r.request), r.result, strings.ToLower(r.result), strings.ReplaceAll(r.comment, "|", `\|`))
	}
	return b.String()
}

// section is a heading for the message, its comment, and a table of its fields.
func (m *message) section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s\n", m.name, m.comment)
	if len(m.fields) > 0 {
		b.WriteString("\n| Field | Number | Type | |\n|---|---|---|---|\n")
	}
	for _, f := range m.fields {
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s |\n", f.name, f.number, f.describeType(), strings.ReplaceAll(f.describe(), "|", `\|`))
	}
	return b.String()
}

func (f *field) describeType() string {
	one := f.kind.String()
	switch {
	case f.kind == protoreflect.MessageKind:
		one = fmt.Sprintf("[%s](#%s)", f.message, strings.ToLower(f.message))
	case f.raw:
		one = "payload"
	}
	switch f.shape {
	case repeated:
		return "list of " + one
	case mapped:
		return "map of strings to " + one
	}
	return one
}

// describe is the comment, and the annotations that matter to readers.
func (f *field) describe() string {
	var words []string
	if f.required {
		words = append(words, "Required.")
	}
	if f.comment != "" {
		words = append(words, f.comment)
	}
	if f.always {
		words = append(words, "Always in JSON.")
	}
	if f.noJSON {
		words = append(words, "Not in JSON.")
	}
	if f.most > 0 {
		words = append(words, fmt.Sprintf("At most %d.", f.most))
	}
	return strings.Join(words, " ")
}
