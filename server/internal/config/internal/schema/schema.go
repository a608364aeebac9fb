// Package schema loads, checks, writes and documents a configuration that is
// described once, by the tags of a Go struct:
//
//	key   name of the key below its section
//	def   default, in the text form of the environment
//	doc   one sentence for the reference
//	enum  allowed non-empty values, separated by "|"
//	min, max  bounds of a number or a duration
//	arg   what replaces "{}" in the keys and defaults of the section
//	opt   comma-separated: "secret" (never shown in messages; the key with the
//	      suffix _file names a file that has it), "seconds" (a duration of whole seconds), "reload" (a running server
//	      takes the value over), "restart" (it does not, though it takes over the
//	      other values of the section), "flag" (the program has a flag for the key)
//	idle  why the key has no effect
//
// opt:"reload" and idle of a section apply to all keys in it.
//
// A struct is a section, an embedded struct contributes its keys to the section
// around it, a slice of structs is a list of objects, and a named list if its
// elements have the key "name". Leaves are bool, int, int64, string types,
// time.Duration, []string and map[string]string.
//
// The rules of loading depend on where a value comes
// from (a bare number is a duration in a file, but not in the environment), and apply inside
// of elements of lists. A library that merges all sources before it converts values cannot
// follow them.
package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type kind uint8

const (
	kindSection kind = iota
	kindList         // of objects
	kindBool
	kindInt
	kindString
	kindDuration
	kindStrings
	kindMap
)

// field is one key of a section.
type field struct {
	key, def, doc, arg string
	idle               string // why it has no effect
	enum               []string
	min, max           *int64
	secret, seconds    bool
	reload, restart    bool
	flag               bool // the program has a flag for the key
	fromFile           bool // the key with fileSuffix names a file with the value
	kind               kind
	named              bool // kindList: elements have names
	index              []int
	typ                reflect.Type
}

var fieldCache sync.Map // reflect.Type -> []field

func fieldsOf(t reflect.Type) []field {
	if fs, ok := fieldCache.Load(t); ok {
		return fs.([]field)
	}
	fs := collect(t, nil)
	markFromFile(fs)
	fieldCache.Store(t, fs)
	return fs
}

func collect(t reflect.Type, index []int) []field {
	var fs []field
	for i := range t.NumField() {
		sf := t.Field(i)
		at := append(slices.Clone(index), i)
		if sf.Anonymous {
			fs = append(fs, collect(sf.Type, at)...)
			continue
		}
		fs = append(fs, newField(t, sf, at))
	}
	return fs
}

func newField(t reflect.Type, sf reflect.StructField, index []int) field {
	f := field{
		key: sf.Tag.Get("key"), def: sf.Tag.Get("def"), doc: sf.Tag.Get("doc"), arg: sf.Tag.Get("arg"),
		idle: sf.Tag.Get("idle"), min: bound(sf.Tag.Get("min")), max: bound(sf.Tag.Get("max")),
		index: index, typ: sf.Type,
	}
	if f.key == "" {
		panic(fmt.Sprintf("schema: %s.%s has no key", t, sf.Name)) // a mistake in the schema, which every test finds
	}
	if e := sf.Tag.Get("enum"); e != "" {
		f.enum = strings.Split(e, "|")
	}
	for o := range strings.SplitSeq(sf.Tag.Get("opt"), ",") {
		f.secret = f.secret || o == "secret"
		f.seconds = f.seconds || o == "seconds"
		f.reload = f.reload || o == "reload"
		f.restart = f.restart || o == "restart"
		f.flag = f.flag || o == "flag"
	}
	f.kind = kindOf(sf.Type)
	f.named = f.kind == kindList && find(sf.Type.Elem(), "name") != nil
	return f
}

func bound(s string) *int64 {
	if s == "" {
		return nil
	}
	if d, err := time.ParseDuration(s); err == nil && s != "0" {
		return new(int64(d))
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("schema: bad bound " + s)
	}
	return &n
}

var durationType = reflect.TypeFor[time.Duration]()

func kindOf(t reflect.Type) kind {
	switch {
	case t == durationType:
		return kindDuration
	case t.Kind() == reflect.Struct:
		return kindSection
	case t.Kind() == reflect.Bool:
		return kindBool
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return kindInt
	case t.Kind() == reflect.String:
		return kindString
	case t.Kind() == reflect.Map:
		return kindMap
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return kindStrings
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return kindList
	}
	panic("schema: unsupported type " + t.String())
}

// path names a value, for files, messages and the environment.
type path struct {
	key    string // channel.namespaces.[0].presence
	msg    string // channel.namespaces[0](chat).presence
	env    string // CHANNEL_NAMESPACES_CHAT_PRESENCE; empty if no variable reaches it
	arg    string // replaces {} in keys and defaults below
	idle   string
	reload bool
}

func (p path) child(key string) path {
	c := path{arg: p.arg, idle: p.idle, reload: p.reload}
	if p.key == "" {
		c.key, c.msg, c.env = key, key, strings.ToUpper(key)
		return c
	}
	c.key, c.msg = p.key+"."+key, p.msg+"."+key
	if p.env != "" {
		c.env = p.env + "_" + strings.ToUpper(key)
	}
	return c
}

// fill replaces {} by the section's arg.
func (p path) fill(s string) string { return strings.ReplaceAll(s, "{}", p.arg) }

func (p path) field(f field) path {
	c := p.child(p.fill(f.key))
	if f.arg != "" {
		c.arg = f.arg
	}
	if f.idle != "" {
		c.idle = f.idle
	}
	c.reload = (p.reload || f.reload) && !f.restart
	return c
}

var envName = strings.NewReplacer(".", "_", "-", "_")

// element is the path of a list's i-th element; name may be empty.
func (p path) element(i int, name string) path {
	c := path{key: fmt.Sprintf("%s.[%d]", p.key, i), msg: fmt.Sprintf("%s[%d]", p.msg, i), arg: p.arg, idle: p.idle, reload: p.reload}
	if name != "" {
		c.msg += "(" + Clip(name) + ")"
		if p.env != "" {
			c.env = p.env + "_" + strings.ToUpper(envName.Replace(name))
		}
	}
	return c
}

// leaf is a value of a configuration. A list of objects is a leaf too, and the leaves of its elements follow.
type leaf struct {
	path
	field
	value reflect.Value
}

// walk visits the leaves of a section in the order of the schema.
func walk(p path, v reflect.Value, visit func(leaf)) {
	for _, f := range fieldsOf(v.Type()) {
		c, fv := p.field(f), v.FieldByIndex(f.index)
		if f.kind == kindSection {
			walk(c, fv, visit)
			continue
		}
		visit(leaf{path: c, field: f, value: fv})
		if f.kind == kindList {
			for i := range fv.Len() {
				walk(c.element(i, nameOf(fv.Index(i))), fv.Index(i), visit)
			}
		}
	}
}

func nameOf(v reflect.Value) string {
	if f := find(v.Type(), "name"); f != nil {
		return v.FieldByIndex(f.index).String()
	}
	return ""
}

// isOff tells whether a section has a key enabled that is false.
func isOff(v reflect.Value) bool {
	f := find(v.Type(), "enabled")
	return f != nil && v.FieldByIndex(f.index).IsZero()
}

func find(section reflect.Type, key string) *field {
	fields := fieldsOf(section)
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 {
		return nil
	}
	return &fields[i]
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

func root(cfg any) reflect.Value { return reflect.ValueOf(cfg).Elem() }
