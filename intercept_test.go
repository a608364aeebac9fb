package gyro

import (
	"context"
	"log/slog"
	"reflect"
	"testing"
)

// Interceptors are around every field of Handlers that is set, and nothing else.
func TestInterceptorsAreAroundAllHandlers(t *testing.T) {
	var got []Call
	var replies []any
	record := func(next HandlerFunc) HandlerFunc {
		return func(ctx context.Context, call Call) (any, error) {
			reply, err := next(ctx, call)
			got, replies = append(got, call), append(replies, reply)
			return reply, err
		}
	}
	by := []Interceptor{record}
	if none := (Handlers{}).intercepted(by, slog.Default()); !reflect.ValueOf(none).IsZero() {
		t.Error("handlers came from nothing")
	}
	var h Handlers
	v := reflect.ValueOf(&h).Elem()
	calls := 0
	for i := range v.NumField() {
		kind := v.Field(i).Type()
		v.Field(i).Set(reflect.MakeFunc(kind, func([]reflect.Value) (out []reflect.Value) {
			calls++
			for i := range kind.NumOut() {
				out = append(out, reflect.Zero(kind.Out(i)))
			}
			return out
		}))
	}
	v = reflect.ValueOf(h.intercepted(by, slog.Default()))
	for i := range v.NumField() {
		name, kind := v.Type().Field(i).Name, v.Field(i).Type()
		in := []reflect.Value{reflect.ValueOf(context.Background())}
		for i := 1; i < kind.NumIn(); i++ {
			in = append(in, reflect.Zero(kind.In(i)))
		}
		got, replies, calls = nil, nil, 0
		out := v.Field(i).Call(in)
		if len(got) != 1 || got[0].Handler != name || calls != 1 {
			t.Fatalf("%s: %+v, %d calls", name, got, calls)
		}
		if last := kind.In(kind.NumIn() - 1); last != reflect.TypeFor[*Client]() && reflect.TypeOf(got[0].Event) != last {
			t.Errorf("%s: the event is %T", name, got[0].Event)
		}
		if len(out) > 0 && !out[len(out)-1].IsNil() {
			t.Errorf("%s: %v", name, out[len(out)-1])
		}
		if len(out) == 2 && reflect.TypeOf(replies[0]) != kind.Out(0) {
			t.Errorf("%s: the reply is %T", name, replies[0])
		}
	}
}

// Without interceptors the handlers stay what they are: there is nothing to pay for.
func TestNoInterceptorsCostNothing(t *testing.T) {
	h := Handlers{Message: func(context.Context, *Client, []byte) error { return nil }}
	same := reflect.ValueOf(h.intercepted(nil, slog.Default()).Message).Pointer() == reflect.ValueOf(h.Message).Pointer()
	if !same {
		t.Error("a handler was wrapped")
	}
}
