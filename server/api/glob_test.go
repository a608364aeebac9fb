package api

import (
	"strings"
	"testing"

	"github.com/gobwas/glob"
)

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern  string
		yes, not []string
	}{
		{"*", []string{"", "a", "a:b/c", "a\nb", "é"}, nil},
		{"**", []string{"", "a:b/c"}, nil},
		{"chat:*", []string{"chat:", "chat:a:b", "chat:/x"}, []string{"chat", "xchat:a"}},
		{"?", []string{"a", "é", ":"}, []string{"", "ab"}},
		{"[abc]x", []string{"ax", "cx"}, []string{"dx", "x"}},
		{"[a-c]", []string{"a", "b", "c"}, []string{"d", "-"}},
		{"[!abc]", []string{"d", "!"}, []string{"a", ""}},
		{"[!a-c]", []string{"d"}, []string{"b"}},
		{"[^a]", []string{"^", "a"}, []string{"b"}},
		{`[\]\\]`, []string{"]", `\`}, []string{"a"}},
		{"[a-]", []string{"a", "-"}, []string{"b"}},
		{"{foo,bar}:*", []string{"foo:1", "bar:"}, []string{"baz:1", "foo"}},
		{"a{b,c{d,e},}f", []string{"abf", "acdf", "acef", "af"}, []string{"acf"}},
		{`\*\?\[\{\\`, []string{`*?[{\`}, []string{"a"}},
		{"a,b}]", []string{"a,b}]"}, nil},
		{"a.c+(d)|^$", []string{"a.c+(d)|^$"}, []string{"abc+(d)|^$"}},
	}
	for _, tt := range tests {
		match, err := compileGlob(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		for _, s := range tt.yes {
			if !match(s) {
				t.Errorf("%s does not match %q", tt.pattern, s)
			}
		}
		for _, s := range tt.not {
			if match(s) {
				t.Errorf("%s matches %q", tt.pattern, s)
			}
		}
	}
	for _, p := range []string{"[", "[]", "[!]", "[a", "[a-", `[\`, "[z-a]", "{a", "{{a}", `a\`, "\xff" + "{",
		strings.Repeat("a", maxPatternLen+1), strings.Repeat("{", 512) + strings.Repeat("}", 511)} {
		if _, err := compileGlob(p); err == nil {
			t.Errorf("%q is accepted", p)
		}
	}
}

// FuzzGlob compares with a glob library on patterns put together from tokens
// that both read alike, and checks that no pattern panics.
func FuzzGlob(f *testing.F) {
	tokens := []string{"*", "?", "**", "a", "b", ":", "[ab]", "[a-c]", "[!ab]", "{a,b}", "{a*,?:}", `\*`, "c", "é"}
	f.Add([]byte{0, 3, 9}, "a:b", "[a")
	f.Add([]byte{10, 8, 1}, "abcé", "{a,[!b-c]}")
	f.Fuzz(func(t *testing.T, pick []byte, name, free string) {
		if match, err := compileGlob(free); err == nil {
			match(name)
		}
		if len(pick) > 8 || len(name) > 64 || strings.ToValidUTF8(name, "") != name {
			return
		}
		var p strings.Builder
		for _, b := range pick {
			p.WriteString(tokens[int(b)%len(tokens)])
		}
		match, err := compileGlob(p.String())
		want, wantErr := glob.Compile(p.String())
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: %v, the library: %v", p.String(), err, wantErr)
		}
		if err == nil && match(name) != want.Match(name) {
			t.Fatalf("%s on %q: %v, the library: %v", p.String(), name, match(name), want.Match(name))
		}
	})
}
