package config

import (
	"path"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		patterns []string
		origin   string
		want     bool
	}{
		{nil, "", true},
		{nil, "https://app.example", false},
		{[]string{"*"}, "https://app.example", true},
		{[]string{"*"}, "null", true},
		{[]string{"*"}, "", true},
		{[]string{"https://app.example"}, "", true},
		{[]string{"https://app.example"}, "https://app.example", true},
		{[]string{"https://app.example"}, "HTTPS://App.Example", true},
		{[]string{"https://App.example"}, "https://app.example", true},
		{[]string{"https://App.example"}, "https://App.Example", true},
		{[]string{"https://[A-C].example"}, "https://b.example", true},
		{[]string{"https://app.example"}, "https://app.example:8080", false},
		{[]string{"https://app.example"}, "https://app.example.evil", false},
		{[]string{"https://app.example"}, "http://app.example", false},
		{[]string{"app.example"}, "https://app.example", false},
		{[]string{"*.example.com"}, "https://a.example.com", true},
		{[]string{"*.example.com"}, "https://a.b.example.com", true},
		{[]string{"*.example.com"}, "https://example.com", false},
		{[]string{"https://*"}, "https://a.b:3/x", true},
		{[]string{"http://localhost:*", "null"}, "null", true},
		{[]string{"http://localhost:*", "null"}, "http://localhost:3000", true},
		{[]string{"http://{a,b}.example"}, "http://b.example", true},
		{[]string{"http://[!a].example"}, "http://a.example", false},
		{[]string{"http://?.example"}, "http://a.example", true},
		{[]string{"http://*"}, "http://" + strings.Repeat("a", maxOriginLength-7), true},
		{[]string{"http://*"}, "http://" + strings.Repeat("a", maxOriginLength-6), false},
		{[]string{"*"}, "http://" + strings.Repeat("a", maxOriginLength), true}, // nothing is compared
	} {
		m, err := NewOrigins(tt.patterns)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(tt.origin); got != tt.want {
			t.Errorf("%q with %q: %v, want %v", tt.patterns, tt.origin, got, tt.want)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, p := range []string{"http://[a", "{a", "[]"} {
		if _, err := NewOrigins([]string{"ok", p}); err == nil || !strings.Contains(err.Error(), "pattern 1") {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// FuzzMatch compares with path.Match, whose syntax agrees on patterns of
// literals, * and ? once the separator is out of play.
func FuzzMatch(f *testing.F) {
	f.Add("*.example.com", "https://a.example.com")
	f.Add("http://?.b*", "http://a.b")
	f.Add("{a,[!b]}*\\", "x")
	f.Fuzz(func(t *testing.T, pattern, origin string) {
		m, err := NewOrigins([]string{pattern, "\x00"})
		if err != nil || origin == "" {
			return
		}
		if len(origin) > maxOriginLength {
			if m.Match(origin) != (pattern == "*" && m.any) {
				t.Errorf("an origin of %d bytes is allowed", len(origin))
			}
			return
		}
		got := m.Match(origin)
		simple := func(s string) bool { return !strings.ContainsAny(s, "[]{},!\\/\x00") && isASCIIText(s) }
		if !simple(pattern) || !simple(origin) {
			return
		}
		want, err := path.Match(strings.ToLower(pattern), strings.ToLower(origin))
		if err != nil {
			t.Skip()
		}
		if got != want {
			t.Errorf("%q with %q: %v, want %v", pattern, origin, got, want)
		}
	})
}

func isASCIIText(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
