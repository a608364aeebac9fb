package gyro

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestParts(t *testing.T) {
	var calls []string
	broken := errors.New("broken")
	parts := func(fails string) []part {
		call := func(name string) func() error {
			return func() error {
				calls = append(calls, name)
				if name == fails {
					return broken
				}
				return nil
			}
		}
		stop := func(name string) func(context.Context) error {
			return func(context.Context) error { return call("-" + name)() }
		}
		return []part{{"a", call("a"), stop("a")}, {name: "b", stop: stop("b")}, {"c", call("c"), stop("c")}, {"d", call("d"), stop("d")}}
	}
	for _, test := range []struct {
		fails string
		want  []string
	}{
		{"", []string{"a", "c", "d", "-d", "-c", "-b", "-a"}},
		{"c", []string{"a", "c", "-b", "-a"}},
		{"a", []string{"a"}},
		{"-c", []string{"a", "c", "d", "-d", "-c", "-b", "-a"}},
	} {
		calls = nil
		list := parts(test.fails)
		err := startAll(list)
		if err == nil {
			err = stopAll(t.Context(), list)
		}
		if !slices.Equal(calls, test.want) || errors.Is(err, broken) != (test.fails != "") {
			t.Errorf("%q fails: %v, %v", test.fails, calls, err)
		}
	}
}
