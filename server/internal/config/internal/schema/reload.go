package schema

import (
	"fmt"
	"reflect"
)

// Reload copies the reloadable values of later to cfg, which has the same type. It returns the keys with other values,
// except those without effect: taken were copied, left were not. Keys are as in messages; a new or removed list element
// is one key.
func Reload(cfg, later any) (taken, left []string) {
	r := reloader{}
	r.section(path{}, root(cfg), root(later))
	return r.taken, r.left
}

type reloader struct{ taken, left []string }

func (r *reloader) section(p path, to, from reflect.Value) {
	for _, f := range fieldsOf(to.Type()) {
		c, tv, fv := p.field(f), to.FieldByIndex(f.index), from.FieldByIndex(f.index)
		switch {
		case f.kind == kindSection:
			r.section(c, tv, fv)
		case c.reload:
			r.taken = changes(c, f, tv, fv, r.taken)
			tv.Set(fv) // lists are copied as a whole
		case c.idle == "" && !same(tv, fv):
			r.left = append(r.left, c.msg)
		}
	}
}

func same(a, b reflect.Value) bool {
	return isEmpty(a) && isEmpty(b) || reflect.DeepEqual(a.Interface(), b.Interface())
}

func changes(p path, f field, a, b reflect.Value, out []string) []string {
	switch {
	case p.idle != "" || same(a, b):
		return out
	case f.kind == kindSection:
		for _, g := range fieldsOf(f.typ) {
			out = changes(p.field(g), g, a.FieldByIndex(g.index), b.FieldByIndex(g.index), out)
		}
		return out
	case f.kind != kindList:
		return append(out, p.msg)
	}
	before, used := positionsOf(a), make(map[string]bool, b.Len())
	section := field{kind: kindSection, typ: f.typ.Elem()}
	for i := range b.Len() {
		id := elementID(b, i)
		used[id] = true
		at := p.element(i, nameOf(b.Index(i)))
		if j, ok := before[id]; ok {
			out = changes(at, section, a.Index(j), b.Index(i), out)
		} else {
			out = append(out, at.msg+" (new)")
		}
	}
	for i := range a.Len() {
		if id := elementID(a, i); !used[id] {
			out = append(out, p.element(i, nameOf(a.Index(i))).msg+" (removed)")
		}
	}
	return out
}

// positionsOf returns the indices of the elements of a list.
func positionsOf(list reflect.Value) map[string]int {
	at := make(map[string]int, list.Len())
	for i := range list.Len() {
		at[elementID(list, i)] = i
	}
	return at
}

// elementID identifies elements of two lists: by name, else by index.
func elementID(list reflect.Value, i int) string {
	if name := nameOf(list.Index(i)); name != "" {
		return name
	}
	return fmt.Sprintf("[%d]", i)
}
