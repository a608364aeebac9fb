package docs

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const anything = "…"

// pattern is the expression for what a page shows. Space at the end of lines and around the whole does not count.
func pattern(shown string) string {
	lines := strings.Split(strings.TrimSpace(shown), "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " ")), anything, `[\s\S]*?`)
	}
	return `^\s*` + strings.Join(lines, `[ \t]*\n`) + `\s*$`
}

// matches compares what was printed with what a page shows: as JSON values if both are, else as text.
func matches(shown, printed string) error {
	want, wantErr := values(shown)
	got, gotErr := values(printed)
	if wantErr == nil && gotErr == nil {
		if !equal(want, got) {
			return fmt.Errorf("got\n%s\nwant\n%s", printed, shown)
		}
		return nil
	}
	if !regexp.MustCompile(pattern(shown)).MatchString(printed) {
		return fmt.Errorf("got\n%s\nwant\n%s", printed, shown)
	}
	return nil
}

func values(text string) (all []any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func equal(want, got any) bool {
	switch want := want.(type) {
	case string:
		text, ok := got.(string)
		return want == anything || ok && regexp.MustCompile(pattern(want)).MatchString(text)
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(want, list, equal)
	case map[string]any:
		members, ok := got.(map[string]any)
		return ok && equalMembers(want, members)
	}
	return reflect.DeepEqual(want, got)
}

// equalMembers takes a member "…" for one with any other name, and with the value "…" for any number of them.
func equalMembers(want, got map[string]any) bool {
	other, open := want[anything]
	rest := open && other == any(anything)
	if len(want) != len(got) && !rest {
		return false
	}
	for name, expected := range want {
		v, ok := got[name]
		if name != anything && !(ok && equal(expected, v)) {
			return false
		}
	}
	for name, v := range got {
		if _, named := want[name]; !named && !(open && equal(other, v)) {
			return false
		}
	}
	return true
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		ok             bool
	}{
		{"a … c", "a b c\n", true},
		{"a\n…\nd\n", "a\nb\nc\nd", true},
		{"a.c", "abc", false},
		{"a", "a\nb", false},
		{`{"epoch":"…","offset":1}`, `{"offset":1,"epoch":"x"}`, true},
		{`{"offset":2}`, `{"offset":1}`, false},
		{`{"a":{}}`, `{"a":{},"b":1}`, false},
		{`{"presence":{"…":{"user":"ann"}}}`, `{"presence":{"42":{"user":"ann"}}}`, true},
		{`{"presence":{"…":{"user":"ann"}}}`, `{"presence":{"42":{"user":"bob"}}}`, false},
		{`{"uptime":"…"}`, `{"uptime":3}`, true},
		{`{"a":1,"…":"…"}`, `{"a":1}`, true},
		{`{"a":1,"…":"…"}`, `{"a":1,"b":2,"c":3}`, true},
		{`{"a":1,"…":"…"}`, `{"b":2,"c":3}`, false},
		{`{"text":"no: …"}`, `{"text":"no: x"}`, true},
		{`{"a":1}`, `{"a":1}{"b":2}`, false},
		{`[1,2]`, `[1]`, false},
	} {
		if err := matches(c.shown, c.printed); (err == nil) != c.ok {
			t.Errorf("%q against %q: %v", c.printed, c.shown, err)
		}
	}
}
