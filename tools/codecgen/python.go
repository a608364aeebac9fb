package main

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// pythonName is the name of the generated module of the client for Python.
const pythonName = "messages.py"

// generatePython returns the module with the messages of the service as dataclasses, and with its methods. What lists unions
// is left out: the client has its own code for batches.
func generatePython(s *schema, source string) (map[string][]byte, error) {
	g := python{schema: s, written: make(map[string]bool), read: make(map[string]bool)}
	for _, r := range s.rpcs {
		if !r.wrapped {
			continue
		}
		g.reach(r.request, g.written)
		g.reach(r.result, g.read)
	}
	g.line(0, "# Code generated from %s. DO NOT EDIT.", source)
	g.line(0, "%s", strings.TrimLeft(pythonHead, "\n"))
	g.line(0, "\n__all__ = [")
	for _, m := range s.messages {
		if g.rpcOf(m.name) != nil || g.value(m) {
			g.line(1, "%q,", m.name)
		}
	}
	g.line(0, "]")
	for _, m := range s.messages {
		if r := g.rpcOf(m.name); r != nil || g.value(m) {
			g.dataclass(m, r)
		}
	}
	g.methods()
	return map[string][]byte{pythonName: []byte(g.out.String())}, nil
}

const pythonHead = `
"""The requests and results of the server API, and a method for each of its methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence, TypeVar

from .request import UNSET, Request

T = TypeVar("T")`

// python prints the module.
type python struct {
	*schema
	// written and read have the messages that a request or a result contains.
	written, read map[string]bool
	out           strings.Builder
}

func (g *python) line(indent int, format string, args ...any) {
	g.out.WriteString(strings.TrimRight(strings.Repeat("    ", indent)+fmt.Sprintf(format, args...), " ") + "\n")
}

// reach adds a message, and those that it contains.
func (g *python) reach(name string, all map[string]bool) {
	if all[name] {
		return
	}
	all[name] = true
	for _, f := range g.message(name).fields {
		if f.message != "" {
			g.reach(f.message, all)
		}
	}
}

// rpcOf returns the method that the message is the request of; nil if there is none.
func (g *python) rpcOf(name string) *rpc {
	for i := range g.rpcs {
		if g.rpcs[i].request == name && g.rpcs[i].wrapped {
			return &g.rpcs[i]
		}
	}
	return nil
}

// value tells whether a message has a dataclass: it has fields, and is not one value under another name.
func (g *python) value(m *message) bool {
	return (g.written[m.name] || g.read[m.name]) && len(m.fields) > 0 && !m.wrapper()
}

// wrapper tells whether a message is one value, which can be absent.
func (m *message) wrapper() bool { return len(m.fields) == 1 && m.fields[0].name == "value" }

// ordered returns the fields that are part of the JSON form: required ones first, then payloads.
func (m *message) ordered() (fields []*field) {
	for _, want := range []int{0, 1, 2} {
		for _, f := range m.fields {
			if !f.noJSON && f.place() == want {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// place is 0 for a required field, 1 for the payload, and 2 for all others, which callers name.
func (f *field) place() int {
	switch {
	case f.required:
		return 0
	case f.raw && f.name == "data":
		return 1
	}
	return 2
}

func (g *python) dataclass(m *message, r *rpc) {
	base, result := "", ""
	if r != nil {
		result = g.result(*r)
		base = "(Request[" + quoteUnlessNone(result) + "])"
	}
	g.line(0, "\n\n@dataclass(frozen=True)\nclass %s%s:", m.name, base)
	g.doc(1, m.comment, "Attributes:", m.ordered())
	if m.comment != "" && len(m.fields) > 0 {
		g.line(0, "")
	}
	for _, f := range m.ordered() {
		g.line(1, "%s: %s%s", f.name, g.annotation(f, g.written[m.name]), g.initial(f, g.written[m.name] && f.required))
	}
	if r != nil {
		g.line(0, "\n    _method = %q", snakeCase(r.name))
	}
	if g.written[m.name] {
		g.writer(m)
	}
	if g.read[m.name] {
		g.reader(m)
	}
	if r == nil {
		return
	}
	g.line(0, "\n    @staticmethod\n    def _result(answer: dict[str, Any]) -> %s:", result)
	if result == "None" {
		g.line(2, "return None")
	} else {
		g.line(2, "return %s._read(answer)", result)
	}
}

func quoteUnlessNone(name string) string {
	if name == "None" {
		return name
	}
	return `"` + name + `"`
}

// result is the type of what a method returns.
func (g *python) result(r rpc) string {
	if len(g.message(r.result).fields) == 0 {
		return "None"
	}
	return r.result
}

// annotation is the type of a field. Callers may pass any sequence or mapping.
func (g *python) annotation(f *field, passed bool) string {
	element := pythonScalars[f.kind]
	var wrapped bool
	if f.message != "" {
		element = f.message
		if m := g.message(f.message); m.wrapper() {
			element, wrapped = pythonScalars[m.fields[0].kind], true
		}
	}
	switch {
	case f.shape == repeated && passed:
		return "Sequence[" + element + "]"
	case f.shape == repeated:
		return "list[" + element + "]"
	case f.shape == mapped && passed:
		return "Mapping[str, " + element + "]"
	case f.shape == mapped:
		return "dict[str, " + element + "]"
	case f.message != "" || wrapped:
		return element + " | None"
	}
	return element
}

var pythonScalars = map[protoreflect.Kind]string{
	protoreflect.BoolKind: "bool", protoreflect.StringKind: "str", protoreflect.DoubleKind: "float", protoreflect.BytesKind: "Any",
	protoreflect.Int32Kind: "int", protoreflect.Int64Kind: "int", protoreflect.Sint64Kind: "int",
	protoreflect.Uint32Kind: "int", protoreflect.Uint64Kind: "int",
}

// initial is the value that a field has unless one is given.
func (g *python) initial(f *field, required bool) string {
	switch {
	case required:
		return ""
	case f.shape == repeated:
		return " = field(default_factory=list)"
	case f.shape == mapped:
		return " = field(default_factory=dict)"
	}
	return " = " + f.zero()
}

// zero is the value of a field that is missing.
func (f *field) zero() string {
	switch {
	case f.shape == repeated:
		return "()"
	case f.shape == mapped:
		return "{}"
	case f.message != "":
		return "None"
	case f.kind == protoreflect.BytesKind:
		return "UNSET"
	case f.kind == protoreflect.BoolKind:
		return "False"
	case f.kind == protoreflect.StringKind:
		return `""`
	case f.kind == protoreflect.DoubleKind:
		return "0.0"
	}
	return "0"
}

// writer prints the method that returns the JSON object of a message.
func (g *python) writer(m *message) {
	g.line(0, "\n    def _write(self) -> dict[str, Any]:\n        o: dict[str, Any] = {}")
	for _, f := range m.ordered() {
		value := "self." + f.name
		if !f.required {
			g.line(2, "if %s:", f.present(value))
		}
		indent := 3
		if f.required {
			indent = 2
		}
		element := "v"
		if f.message != "" {
			element = "v._write()"
			if g.message(f.message).wrapper() {
				element = `{"value": v}`
			}
		}
		switch {
		case f.shape == repeated:
			value = "[" + element + " for v in " + value + "]"
		case f.shape == mapped:
			value = "{k: " + element + " for k, v in " + value + ".items()}"
		case f.message != "":
			value = strings.ReplaceAll(element, "v.", value+".")
			value = strings.ReplaceAll(value, ": v}", ": self."+f.name+"}")
		}
		g.line(indent, "o[%q] = %s", f.name, value)
	}
	g.line(2, "return o")
}

// present is the condition for a field to be written.
func (f *field) present(value string) string {
	switch {
	case f.shape != singular:
		return value
	case f.message != "":
		return value + " is not None"
	case f.kind == protoreflect.BytesKind:
		return value + " is not UNSET"
	}
	return value
}

// reader prints the method that makes a message of its JSON object.
func (g *python) reader(m *message) {
	g.line(0, "\n    @classmethod\n    def _read(cls, o: dict[str, Any]) -> %s:\n        return cls(", m.name)
	for _, f := range m.ordered() {
		value := fmt.Sprintf("o.get(%q, %s)", f.name, f.zero())
		element := "v"
		if f.message != "" {
			element = f.message + "._read(v)"
			if g.message(f.message).wrapper() {
				element = `v.get("value", False)`
			}
		}
		switch {
		case f.shape == repeated:
			value = fmt.Sprintf("[%s for v in o.get(%q) or ()]", element, f.name)
		case f.shape == mapped:
			value = fmt.Sprintf("{k: %s for k, v in (o.get(%q) or {}).items()}", element, f.name)
		case f.message != "":
			value = fmt.Sprintf("%s if (v := o.get(%q)) is not None else None", element, f.name)
		case f.kind == protoreflect.BytesKind:
			value = fmt.Sprintf("o.get(%q)", f.name)
		}
		g.line(3, "%s=%s,", f.name, value)
	}
	g.line(2, ")")
}

// methods prints the class with a method for each method of the service.
func (g *python) methods() {
	g.line(0, "\n\nclass Methods:\n    \"\"\"A method for each method of the server API.\"\"\"")
	g.line(0, "\n    def call(self, request: Request[T]) -> T:\n        \"\"\"Runs the method of a request.\"\"\"\n        raise NotImplementedError")
	for _, r := range g.rpcs {
		if r.wrapped {
			g.method(r)
		}
	}
}

func (g *python) method(r rpc) {
	fields := g.message(r.request).ordered()
	parameters, arguments := []string{"self"}, []string(nil)
	for i, f := range fields {
		if f.place() == 2 && (i == 0 || fields[i-1].place() < 2) {
			parameters = append(parameters, "*")
		}
		parameter := f.name + ": " + g.annotation(f, true)
		if !f.required {
			parameter += " = " + f.zero()
		}
		parameters, arguments = append(parameters, parameter), append(arguments, f.name+"="+f.name)
	}
	g.line(0, "\n    def %s(", snakeCase(r.name))
	for _, p := range parameters {
		g.line(2, "%s,", p)
	}
	g.line(1, ") -> %s:", g.result(r))
	g.doc(2, r.comment, "Args:", fields)
	g.line(2, "return self.call(\n            %s(", r.request)
	for _, a := range arguments {
		g.line(4, "%s,", a)
	}
	g.line(3, ")\n        )")
}

// doc prints a text, and under a title what fields mean.
func (g *python) doc(indent int, text, title string, fields []*field) {
	if text == "" {
		return
	}
	lines := wrapped(strings.Join(strings.Fields(text), " "), 94-4*indent)
	for i, f := range slices.DeleteFunc(slices.Clone(fields), func(f *field) bool { return f.comment == "" }) {
		if i == 0 {
			lines = append(lines, "", title)
		}
		for j, l := range wrapped(f.name+": "+f.comment, 90-4*indent) {
			if j > 0 {
				l = "    " + l
			}
			lines = append(lines, "    "+l)
		}
	}
	for i, l := range lines {
		l = strings.ReplaceAll(l, `\`, `\\`)
		if i == 0 {
			l = `"""` + l
		}
		if i == len(lines)-1 && i == 0 {
			l += `"""`
		}
		g.line(indent, "%s", l)
	}
	if len(lines) > 1 {
		g.line(indent, `"""`)
	}
}

// wrapped breaks a text into lines of at most so many bytes, where its words allow.
func wrapped(text string, most int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > most {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
