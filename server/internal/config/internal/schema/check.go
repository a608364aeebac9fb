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

// Problem is an error in the value of a key.
type Problem struct {
	Key string // as messages name it: channel.namespaces[0](chat).presence
	Err error
}

func (p *Problem) Error() string { return p.Key + ": " + p.Err.Error() }

func (p *Problem) Unwrap() error { return p.Err }

// Check tests cfg against the tags enum, min, max and opt. The error joins all problems.
func Check(cfg any) error {
	var errs []error
	walk(path{}, root(cfg), func(l leaf) {
		if err := l.check(); err != nil {
			errs = append(errs, &Problem{l.msg, err})
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
		if l.max != nil && int64(d) > *l.max {
			return fmt.Errorf("%s is more than %s", d, time.Duration(*l.max))
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
	return fmt.Errorf("%s is not one of %s", strconv.Quote(Clip(s)), strings.Join(l.enum, ", "))
}

// IdleKey is a key that is set without effect.
type IdleKey struct {
	Key string // as messages name it
	Why string
}

func (k IdleKey) String() string { return k.Key + " has no effect: " + k.Why }

// Idle returns the keys that are set without effect, except in sections that are not enabled. A section may have a
// method Idle that names such a key or returns "".
func Idle(cfg any) []IdleKey { return idle(path{}, root(cfg), nil) }

func idle(p path, v reflect.Value, out []IdleKey) []IdleKey {
	if isOff(v) {
		return out
	}
	if s, ok := v.Addr().Interface().(interface{ Idle() (key, why string) }); ok {
		if key, why := s.Idle(); key != "" {
			out = append(out, IdleKey{p.msg + "." + key, why})
		}
	}
	for _, f := range fieldsOf(v.Type()) {
		c, fv := p.field(f), v.FieldByIndex(f.index)
		switch {
		case f.kind == kindSection:
			out = idle(c, fv, out)
		case c.idle != "":
			if !c.isDefault(f, fv) {
				out = append(out, IdleKey{c.msg, c.idle})
			}
		case f.kind == kindList:
			for i := range fv.Len() {
				out = idle(c.element(i, nameOf(fv.Index(i))), fv.Index(i), out)
			}
		}
	}
	return out
}

// isDefault tells whether v is empty or the default.
func (p path) isDefault(f field, v reflect.Value) bool {
	if isEmpty(v) {
		return true
	}
	def := reflect.New(f.typ).Elem()
	text := p.fill(f.def)
	return text != "" && setText(def, f, text) == nil && reflect.DeepEqual(def.Interface(), v.Interface())
}
