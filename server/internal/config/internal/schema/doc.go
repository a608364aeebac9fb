package schema

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Env returns the variables for all keys of cfg, as sorted lines NAME=value. If given is not nil, only for its keys,
// with values that are not empty.
func Env(cfg any, prefix string, given map[string]bool) []string {
	var out []string
	walk(path{}, root(cfg), func(l leaf) {
		if l.path.env == "" || given != nil && (isEmpty(l.value) || !given[l.path.key]) {
			return
		}
		out = append(out, prefix+l.path.env+"="+l.envText())
	})
	slices.Sort(out)
	return out
}

func (l leaf) envText() string {
	switch l.kind {
	case kindBool:
		return strconv.FormatBool(l.value.Bool())
	case kindInt:
		return strconv.FormatInt(l.value.Int(), 10)
	case kindDuration:
		return time.Duration(l.value.Int()).String()
	case kindStrings:
		return quoteEnv(strings.Join(l.value.Interface().([]string), " "))
	case kindMap:
		if l.value.Len() == 0 {
			return `"{}"`
		}
		return quoteEnv(jsonText(l.value.Interface()))
	case kindList:
		if !l.named {
			return quoteEnv(jsonText(toTree(l.path, l.field, l.value)))
		}
		names := make([]string, l.value.Len())
		for i := range names {
			names[i] = nameOf(l.value.Index(i))
		}
		return quoteEnv(strings.Join(names, " "))
	}
	return quoteEnv(l.value.String())
}

func quoteEnv(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// WriteMarkdown writes the reference of a section, of all if it is empty: a heading and a table of keys with type,
// default, reload, variable and meaning.
func WriteMarkdown(w io.Writer, cfg any, prefix, section string, level int) error {
	var b strings.Builder
	heading := strings.Repeat("#", min(max(level, 1), 6))
	var scalars []leaf
	seen := make(map[reflect.Type]string)
	for _, f := range fieldsOf(root(cfg).Type()) {
		v := root(cfg).FieldByIndex(f.index)
		p := path{}.field(f)
		if section != "" && section != f.key {
			continue
		}
		leaves := docLeaves(p, f, v, seen)
		if f.kind != kindSection && f.kind != kindList {
			scalars = append(scalars, leaves...)
			continue
		}
		fmt.Fprintf(&b, "%s %s\n\n", heading, f.key)
		if doc := p.doc(f.doc); doc != "" {
			fmt.Fprintf(&b, "%s\n\n", doc)
		}
		writeTable(&b, leaves, prefix)
	}
	if len(scalars) > 0 {
		fmt.Fprintf(&b, "%s Other keys\n\n", heading)
		writeTable(&b, scalars, prefix)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// manyKeys is how many keys a type of section needs to be documented once; further sections of the type refer to the
// first.
const manyKeys = 30

// docLeaves returns the leaves of a section, or of one element of a list, whose variables have <NAME>. seen has the
// first key of each type.
func docLeaves(p path, f field, v reflect.Value, seen map[reflect.Type]string) []leaf {
	switch f.kind {
	case kindSection:
		if first := seen[f.typ]; first != "" && p.idle == "" {
			f.doc = "The keys of `" + first + "`."
			return []leaf{{path: p, field: f, value: v}}
		}
		var out []leaf
		for _, g := range fieldsOf(f.typ) {
			out = append(out, docLeaves(p.field(g), g, v.FieldByIndex(g.index), seen)...)
		}
		if len(out) >= manyKeys && p.idle == "" {
			seen[f.typ] = p.key
		}
		return out
	case kindList:
		out := []leaf{{path: p, field: f, value: v}}
		elem := path{key: p.key + "[]", arg: p.arg, idle: p.idle, reload: p.reload}
		if f.named {
			elem.env = p.env + "_<NAME>"
		}
		zero := reflect.New(f.typ.Elem()).Elem()
		for _, g := range fieldsOf(f.typ.Elem()) {
			out = append(out, docLeaves(elem.field(g), g, zero.FieldByIndex(g.index), seen)...)
		}
		return out
	}
	return []leaf{{path: p, field: f, value: v}}
}

func writeTable(b *strings.Builder, leaves []leaf, prefix string) {
	b.WriteString("| Key | Type | Default | Reload | Variable | Meaning |\n|---|---|---|---|---|---|\n")
	for _, l := range leaves {
		def, env, reload := l.path.fill(l.field.def), "", ""
		if def != "" {
			def = "`" + def + "`"
		}
		switch {
		case l.kind == kindSection:
			env = "`" + prefix + l.path.env + "_…`"
		case l.path.env != "":
			env = "`" + prefix + l.path.env + "`"
		}
		if l.path.reload && l.path.idle == "" {
			reload = "yes"
		}
		doc := strings.TrimSpace(strings.ReplaceAll(l.path.doc(l.field.doc), "|", "\\|") + l.bounds())
		if l.fromFile {
			doc = strings.TrimSpace(doc + " Secret; `" + l.name() + fileSuffix + "` names a file with it.")
		}
		if l.enum != nil {
			doc = strings.TrimSpace(doc + " One of `" + strings.Join(l.enum, "`, `") + "`.")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s |\n", l.path.key, l.typeName(), def, reload, env, doc)
	}
	b.WriteByte('\n')
}

// bounds tells the bounds of a number or a duration, but neither 0 nor the greatest number of 32 bits.
func (f field) bounds() (text string) {
	show := func(n int64) string {
		if f.kind != kindDuration {
			return strconv.FormatInt(n, 10)
		}
		d := time.Duration(n).String()
		for _, unit := range []string{"m0s", "h0m"} {
			if short, ok := strings.CutSuffix(d, unit); ok {
				d = short + unit[:1]
			}
		}
		return d
	}
	if f.min != nil && *f.min > 0 {
		text += " At least " + show(*f.min) + "."
	}
	if f.max != nil && (f.kind == kindDuration || *f.max < math.MaxInt32) {
		text += " At most " + show(*f.max) + "."
	}
	if f.seconds {
		text += " Whole seconds."
	}
	return text
}

// Flag is a key with a flag of the program.
type Flag struct {
	Key, Doc string
	// Type is bool, int or string.
	Type string
	// Default is in the text form of the environment.
	Default string
}

// Flags returns the keys with opt:"flag" that are not in a list.
func Flags(cfg any) []Flag {
	var flags []Flag
	walk(path{}, root(cfg), func(l leaf) {
		if l.flag {
			flags = append(flags, Flag{l.path.key, Describe(cfg, l.path.key), typeNames[l.kind], fmt.Sprint(l.value.Interface())})
		}
	})
	return flags
}

// Describe returns the documentation of a key that is not in a list, else of its section.
func Describe(cfg any, key string) string {
	p, section, doc := path{}, root(cfg).Type(), ""
	for name := range strings.SplitSeq(key, ".") {
		fields := fieldsOf(section)
		i := slices.IndexFunc(fields, func(f field) bool { return p.fill(f.key) == name })
		if i < 0 {
			panic("schema: no key " + key) // a mistake of the caller, found by any test
		}
		p, section, doc = p.field(fields[i]), fields[i].typ, cmp.Or(fields[i].doc, doc)
	}
	return p.doc(doc)
}

// doc fills in the documentation of a key, and adds why the key has no effect.
func (p path) doc(doc string) string {
	doc = p.fill(doc)
	if p.idle != "" {
		doc += " No effect: " + p.idle + "."
	}
	return strings.TrimSpace(doc)
}

func (l leaf) name() string { return l.path.key[strings.LastIndexByte(l.path.key, '.')+1:] }

var typeNames = map[kind]string{
	kindBool: "bool", kindInt: "int", kindString: "string", kindDuration: "duration", kindStrings: "list of strings",
	kindMap: "string map", kindList: "list of objects", kindSection: "object",
}

func (l leaf) typeName() string {
	if l.typ.Name() == "PEM" {
		return "PEM"
	}
	return typeNames[l.kind]
}
