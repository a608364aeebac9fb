package schema

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// schemaKey names the JSON schema in a file, for editors.
const schemaKey = "$schema"

// durationPattern matches what time.ParseDuration accepts.
const durationPattern = `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`

// WriteJSONSchema writes a JSON schema (draft 2020-12) for files. It is stricter than Load, which also accepts a number
// in quotes, for example: an editor should show probable mistakes.
func WriteJSONSchema(w io.Writer, cfg any, title string) error {
	d := definitions{names: map[definition]string{}, taken: map[string]bool{}}
	section := d.section(path{}, root(cfg).Type())
	properties := append(object{{schemaKey, object{{"type", "string"}, {"description", "JSON schema for editors; Gyro ignores it."}}}}, section[1].value.(object)...)
	out := object{
		{schemaKey, "https://json-schema.org/draft/2020-12/schema"},
		{"title", title},
		{"type", "object"},
		{"properties", properties},
		{"patternProperties", object{{`^[a-z0-9_]+\.[a-z0-9_.]+$`, object{}}}},
		{"additionalProperties", false},
		{"$defs", d.all},
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// definitions has the sections that are described once.
type definitions struct {
	all   object
	names map[definition]string
	taken map[string]bool
}

// definition identifies a description.
type definition struct {
	typ       reflect.Type
	arg, idle string
}

func (d *definitions) section(p path, t reflect.Type) object {
	properties := object{}
	for _, f := range fieldsOf(t) {
		c := p.field(f)
		key := p.fill(f.key)
		properties = append(properties, member{key, d.value(c, f)})
		if f.fromFile {
			properties = append(properties, member{key + fileSuffix, object{
				{"type", "string"}, {"description", "File with the value of " + key + ", read at start and at reload."},
			}})
		}
	}
	return object{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}}
}

// shared returns a reference to a description.
func (d *definitions) shared(p path, t reflect.Type) object {
	if t.Name() == "" {
		return d.section(p, t)
	}
	id := definition{t, p.arg, p.idle}
	name, ok := d.names[id]
	if !ok {
		name = t.Name()
		for i := 2; d.taken[name]; i++ {
			name = t.Name() + strconv.Itoa(i)
		}
		d.names[id], d.taken[name] = name, true
		d.all = append(d.all, member{name, d.section(p, t)})
	}
	return object{{"$ref", "#/$defs/" + name}}
}

func (d *definitions) value(p path, f field) object {
	var out object
	switch f.kind {
	case kindSection:
		out = d.shared(p, f.typ)
	case kindList:
		element := path{key: p.key + "[]", arg: p.arg, idle: p.idle}
		out = object{{"type", "array"}, {"items", d.shared(element, f.typ.Elem())}}
	default:
		out = f.scalar()
	}
	doc := p.doc(f.doc)
	if f.kind == kindDuration { // the bounds of numbers are in the schema
		doc = strings.TrimSpace(doc + f.bounds())
	}
	if doc != "" {
		out = append(out, member{"description", doc})
	}
	if def := p.fill(f.def); def != "" {
		v := reflect.New(f.typ).Elem()
		if err := setText(v, f, def); err != nil {
			panic(fmt.Sprintf("schema: default of %s: %v", p.key, err)) // a mistake in the schema, which every test finds
		}
		out = append(out, member{"default", toTree(p, f, v)})
	}
	if f.secret {
		out = append(out, member{"writeOnly", true})
	}
	return out
}

func (f field) scalar() object {
	text := object{{"type", "string"}}
	if f.enum != nil {
		values := []any{""} // stands for the default
		for _, e := range f.enum {
			values = append(values, e)
		}
		text = object{{"enum", values}}
	}
	switch f.kind {
	case kindBool:
		return object{{"type", "boolean"}}
	case kindInt:
		return f.number()
	case kindDuration: // a bare number would be nanoseconds: only 0 and "negative" make sense
		return object{{"type", []any{"string", "integer"}}, {"pattern", durationPattern}, {"maximum", int64(0)}}
	case kindStrings:
		return object{{"anyOf", []any{object{{"type", "array"}, {"items", text}}, text}}}
	case kindMap:
		value := object{{"type", []any{"string", "number"}}}
		pair := object{
			{"type", "object"}, {"properties", object{{"key", object{{"type", "string"}}}, {"value", value}}},
			{"required", []any{"key"}}, {"additionalProperties", false},
		}
		return object{{"anyOf", []any{
			object{{"type", "object"}, {"propertyNames", object{{"pattern", `^[^.]*$`}}}, {"additionalProperties", value}},
			object{{"type", "array"}, {"items", pair}},
		}}}
	}
	return text
}

// number: zero stands for the default.
func (f field) number() object {
	out := object{{"type", "integer"}}
	if f.min != nil {
		low := *f.min
		if f.def != "" {
			low = min(low, 0)
		}
		out = append(out, member{"minimum", low})
	}
	if f.max != nil {
		out = append(out, member{"maximum", *f.max})
	}
	return out
}
