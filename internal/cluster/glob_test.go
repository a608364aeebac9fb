package cluster

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCompile(t *testing.T) {
	tests := []struct {
		pattern  string
		yes, not []string
	}{
		{"", []string{"", "a", "a:b"}, nil},
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
		strings.Repeat("a", maxPattern+1), strings.Repeat("{", 512) + strings.Repeat("}", 511)} {
		if _, err := compileGlob(p); err == nil {
			t.Errorf("%q is accepted", p)
		}
	}
}

// oracle is a token of a pattern: what it can take from the front of a name, as the
// rests that it leaves.
type oracle func(name string) (rests []string)

func one(allowed func(r rune) bool) oracle {
	return func(name string) []string {
		r, n := utf8.DecodeRuneInString(name)
		if n == 0 || !allowed(r) {
			return nil
		}
		return []string{name[n:]}
	}
}

func among(set string) oracle {
	return one(func(r rune) bool { return strings.ContainsRune(set, r) })
}

func anything(name string) (rests []string) {
	for i := range name {
		rests = append(rests, name[i:])
	}
	return append(rests, "")
}

// either is the alternative of two sequences.
func either(a, b []oracle) oracle {
	return func(name string) []string { return append(after(a, name), after(b, name)...) }
}

func after(tokens []oracle, name string) []string {
	rests := []string{name}
	for _, t := range tokens {
		next := make(map[string]bool)
		for _, r := range rests {
			for _, n := range t(r) {
				next[n] = true
			}
		}
		rests = rests[:0:0]
		for r := range next {
			rests = append(rests, r)
		}
	}
	return rests
}

// FuzzCompile compares with a matcher that tries everything on patterns put together
// from tokens, and checks that no pattern panics.
func FuzzCompile(f *testing.F) {
	tokens := []struct {
		text string
		is   oracle
	}{
		{"*", anything}, {"**", anything}, {"?", one(func(rune) bool { return true })},
		{"a", among("a")}, {"b", among("b")}, {":", among(":")}, {"é", among("é")}, {`\*`, among("*")},
		{"[ab]", among("ab")}, {"[a-c]", among("abc")},
		{"[!ab]", one(func(r rune) bool { return r != 'a' && r != 'b' })},
		{"{a,b}", among("ab")}, {"{a*,?:}", either([]oracle{among("a"), anything}, []oracle{one(func(rune) bool { return true }), among(":")})},
		{"{,a}", either(nil, []oracle{among("a")})},
	}
	f.Add([]byte{0, 3, 9}, "a:b", "[a")
	f.Add([]byte{10, 8, 1}, "abcé", "{a,[!b-c]}")
	f.Add([]byte{12, 13, 0, 5}, "aé:*:", "\\")
	f.Fuzz(func(t *testing.T, pick []byte, name, free string) {
		if match, err := compileGlob(free); err == nil {
			match(name)
		}
		if len(pick) == 0 || len(pick) > 8 || len(name) > 64 || !utf8.ValidString(name) {
			return
		}
		var pattern strings.Builder
		var want []oracle
		for _, b := range pick {
			token := tokens[int(b)%len(tokens)]
			pattern.WriteString(token.text)
			want = append(want, token.is)
		}
		match, err := compileGlob(pattern.String())
		if err != nil {
			t.Fatalf("%s: %v", pattern.String(), err)
		}
		matches := false
		for _, rest := range after(want, name) {
			matches = matches || rest == ""
		}
		if match(name) != matches {
			t.Fatalf("%s on %q: %v, want %v", pattern.String(), name, match(name), matches)
		}
	})
}
