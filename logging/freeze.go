package logging

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"log/slog"
	"reflect"
)

const (
	lineSize = 400
	attrSize = 64
)

// freeze evaluates an attribute, so that nothing can change it later, and returns its rough size in bytes.
func freeze(a slog.Attr) (slog.Attr, int) {
	v := a.Value.Resolve()
	size := attrSize + len(a.Key)
	switch v.Kind() {
	case slog.KindString:
		size += len(v.String())
	case slog.KindGroup:
		group := v.Group()
		frozen := make([]slog.Attr, len(group))
		for i, member := range group {
			var n int
			frozen[i], n = freeze(member)
			size += n
		}
		v = slog.GroupValue(frozen...)
	case slog.KindAny:
		var n int
		v, n = freezeAny(v)
		size += n
	}
	return slog.Attr{Key: a.Key, Value: v}, size
}

func freezeAny(v slog.Value) (frozen slog.Value, size int) {
	switch x := v.Any().(type) {
	case nil:
		return v, 0
	case error:
		text := fmt.Sprint(x) // unlike x.Error() it does not panic
		return slog.AnyValue(saidError{x, text}), len(text)
	default:
		if constant(reflect.TypeOf(x)) {
			return v, 0
		}
		text, err := json.Marshal(x)
		if err != nil {
			text = fmt.Append(nil, x)
			return slog.StringValue(string(text)), len(text)
		}
		return slog.AnyValue(json.RawMessage(text)), len(text)
	}
}

func constant(t reflect.Type) bool {
	k := t.Kind()
	return k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String || k == reflect.Array && constant(t.Elem())
}

// saidError is an error with the text that it had when it was logged.
type saidError struct {
	err  error
	text string
}

func (e saidError) Error() string { return e.text }
func (e saidError) Unwrap() error { return e.err }

var seed = maphash.MakeSeed()

// errorOf returns a hash of the texts of the record's errors; 0 without errors.
func errorOf(r *slog.Record) (hash uint64) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindAny {
			if err, ok := a.Value.Any().(error); ok {
				hash = hash*31 + maphash.String(seed, fmt.Sprint(err))
			}
		}
		return true
	})
	return hash
}
