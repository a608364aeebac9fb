package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check tests the values of cfg against the enum, min, max and seconds tags. All
// violations are reported, by key, in one joined error.
func Check(cfg any) error {
	var errs []error
	walk(path{}, root(cfg), func(l leaf) {
		if err := l.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", l.msg, err))
		}
	})
	return errors.Join(errs...)
}

func (l leaf) check() error {
	switch l.kind {
	case kindString:
		return l.checkEnum(l.value.String())
	case kindStrings:
		for _, item := range l.value.Interface().([]string) {
			if err := l.checkEnum(item); err != nil {
				return err
			}
		}
	case kindInt:
		n := l.value.Int()
		if l.min != nil && n < *l.min {
			return fmt.Errorf("%d is less than %d", n, *l.min)
		}
		if l.max != nil && n > *l.max {
			return fmt.Errorf("%d is more than %d", n, *l.max)
		}
	case kindDuration:
		d := time.Duration(l.value.Int())
		if l.min != nil && int64(d) < *l.min {
			return fmt.Errorf("%s is less than %s", d, time.Duration(*l.min))
		}
		if l.seconds && d > 0 && d%time.Second != 0 {
			return fmt.Errorf("%s is not a number of whole seconds", d)
		}
	}
	return nil
}

func (l leaf) checkEnum(s string) error {
	if s == "" || l.enum == nil || slices.Contains(l.enum, s) {
		return nil
	}
	return fmt.Errorf("%s is not one of %s", strconv.Quote(clip(s)), strings.Join(l.enum, ", "))
}

// Idle returns a text for each key that was set although it has no effect: the key, and
// why. What a section holds that is not enabled does not count.
func Idle(cfg any) []string { return idle(path{}, root(cfg), nil) }

func idle(p path, v reflect.Value, out []string) []string {
	fields := fieldsOf(v.Type())
	for _, f := range fields {
		if f.key == "enabled" && v.FieldByIndex(f.index).IsZero() {
			return out
		}
	}
	for _, f := range fields {
		c, fv := p.field(f), v.FieldByIndex(f.index)
		switch {
		case f.kind == kindSection:
			out = idle(c, fv, out)
		case c.idle != "":
			if !c.isDefault(f, fv) {
				out = append(out, c.msg+" has no effect: "+c.idle)
			}
		case f.kind == kindList:
			for i := range fv.Len() {
				out = idle(c.element(i, nameOf(fv.Index(i))), fv.Index(i), out)
			}
		}
	}
	return out
}

// isDefault tells whether a key has the value that it has by itself.
func (p path) isDefault(f field, v reflect.Value) bool {
	if isEmpty(v) {
		return true
	}
	def := reflect.New(f.typ).Elem()
	text := p.fill(f.def)
	return text != "" && setText(def, f, text) == nil && reflect.DeepEqual(def.Interface(), v.Interface())
}
