package schema

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// sample has a key of every kind.
type sample struct {
	Bool     bool              `key:"bool"`
	Int      int               `key:"int" def:"7"`
	Text     string            `key:"text" opt:"secret"`
	Duration time.Duration     `key:"duration" def:"5s"`
	Strings  []string          `key:"strings"`
	Map      map[string]string `key:"map"`
	Section  part              `key:"section" arg:"x"`
	Other    part              `key:"other" arg:"y"`
	Named    []element         `key:"named"`
	List     []part            `key:"list"`
}

type part struct {
	Value string `key:"{}value" def:"{}"`
	Deep  struct {
		Text string `key:"text"`
	} `key:"deep"`
}

type element struct {
	Name string `key:"name"`
	part
	Map map[string]string `key:"map"`
}

// FuzzLoad feeds a file and a variable. Whatever loads is written in every format
// and loaded again, which must give the same configuration without unknown keys.
func FuzzLoad(f *testing.F) {
	f.Add(uint8(0), `{"named": [{"name": "a", "duration": "1m", "map": {"b": "c"}}], "section.deep": {"text": 1}}`, "NAMED", "b c")
	f.Add(uint8(1), "strings: [a, 1, 0x10]\nduration: -1\nmap: {yes: '~', A: 1.50}\n", "DURATION", "5s")
	f.Add(uint8(2), "int = '0x10'\ntext = \"a\\tb\"\n[section]\nxvalue = 1\n[[list]]\nvalue=2\n", "NAMED", `[{"name":"p","map":{"A.b":"c"}}]`)
	f.Add(uint8(1), "a: &a {b: *a}\nsection: {<<: {xvalue: yes}, deep: {text: '0b1'}}\n", "NAMED_A_DEEP_TEXT", "1")
	f.Add(uint8(1), "text: |\n  a\n   b\nlist:\n- value: >-\n    c\n\n    d\n", "MAP", `{"":"\u2028"}`)
	formats := []string{"json", "yaml", "toml"}
	f.Fuzz(func(t *testing.T, format uint8, text, name, value string) {
		tree, err := ParseFile(formats[int(format)%3], []byte(text))
		if err != nil {
			return
		}
		src := Source{Prefixes: []string{"P_"}, File: tree, Env: map[string]string{"P_" + name: value}}
		c := new(sample)
		if _, err = Load(c, src); err != nil {
			return
		}
		if Check(c) != nil || !utf8.ValidString(text) || !utf8.ValidString(value) || strings.Contains(text+value, "_VAR_") {
			return
		}
		Env(c, "P_", nil)
		for _, format := range formats {
			var buf bytes.Buffer
			if err := Write(&buf, c, format); err != nil {
				t.Fatal(err)
			}
			tree, err := ParseFile(format, buf.Bytes())
			if err != nil {
				t.Fatalf("%s: %v\n%s", format, err, buf.String())
			}
			again := new(sample)
			report, err := Load(again, Source{File: tree})
			if err != nil || len(report.Keys) > 0 {
				t.Fatalf("%s: %v %v\n%s", format, err, report, buf.String())
			}
			if d := cmp.Diff(c, again, emptyEqual, cmp.AllowUnexported(element{})); d != "" {
				t.Fatalf("%s: %s\n%q", format, d, buf.String())
			}
		}
	})
}

// FuzzText gives one text as flag and as variable: both mean the same, and the
// flag wins over the variable, which wins over the file.
func FuzzText(f *testing.F) {
	for i, text := range []string{"T", "0x1_0", "a b", "-1m30s", "x  y", `{"A":"b"}`, "text", "z"} {
		f.Add(uint8(i), text, "other")
	}
	f.Add(uint8(1), "9223372036854775808", "1")
	f.Add(uint8(3), "25", "1s")
	keys := []string{"bool", "int", "text", "duration", "strings", "map", "section.xvalue", "other.deep.text"}
	f.Fuzz(func(t *testing.T, which uint8, text, other string) {
		key := keys[int(which)%len(keys)]
		name := "P_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		prefixes := []string{"P_", "Q_"}
		load := func(env, flags map[string]string, file any) (*sample, error) {
			c := new(sample)
			report, err := Load(c, Source{Prefixes: prefixes, Env: env, Flags: flags, File: file})
			if len(report.Env)+len(report.Keys) > 0 {
				t.Fatalf("%s: unknown %v", key, report)
			}
			return c, err
		}
		byFlag, flagErr := load(nil, map[string]string{key: text}, nil)
		_, err := load(map[string]string{name: other}, map[string]string{key: text}, map[string]any{key: other})
		if (err == nil) != (flagErr == nil) {
			t.Fatalf("%s=%q: %v; over the variable %q: %v", key, text, flagErr, other, err)
		}
		if flagErr != nil && !strings.Contains(flagErr.Error(), key+": ") {
			t.Fatalf("the error does not name %s: %v", key, flagErr)
		}
		if text == "" {
			return // does not count as a variable
		}
		for _, env := range []map[string]string{{name: text}, {"Q" + name[1:]: text}, {name: text, "Q" + name[1:]: other}} {
			byEnv, envErr := load(env, nil, map[string]any{key: other})
			if (envErr == nil) != (flagErr == nil) {
				t.Fatalf("%s=%q: %v; by variable: %v", key, text, flagErr, envErr)
			}
			if flagErr != nil {
				continue
			}
			if d := cmp.Diff(byFlag, byEnv, emptyEqual, cmp.AllowUnexported(element{})); d != "" {
				t.Fatalf("%s=%q (-flag +variable): %s", key, text, d)
			}
		}
	})
}

// emptyEqual makes a nil slice or map equal to an empty one, as all code must.
var emptyEqual = cmp.FilterPath(func(p cmp.Path) bool {
	k := p.Last().Type().Kind()
	return k == reflect.Slice || k == reflect.Map
}, cmp.FilterValues(func(a, b any) bool { return reflect.ValueOf(a).Len() == 0 && reflect.ValueOf(b).Len() == 0 }, cmp.Ignore()))
