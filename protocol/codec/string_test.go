package codec

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzValidJSON compares with encoding/json.
func FuzzValidJSON(f *testing.F) {
	for _, tt := range commandLines {
		f.Add([]byte(tt.line))
	}
	for _, s := range []string{
		`{"a":[1,-0.5e+10,true,false,null,"\u00e4\\"],"b":{}}`, "\"\xed\xa0\x80\"", `[[[]],{"":[{}]}]`, `1e`, `-`, `"`,
		"\"" + strings.Repeat("x", 100) + "\x1f\"", "\"" + strings.Repeat("x", 40) + "ä\"", nested(130) + "]",
		strings.Repeat(`[{"":`, 100) + "1" + strings.Repeat("}]", 100),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		if bytes.Count(p, []byte("{"))+bytes.Count(p, []byte("[")) > 512 {
			return // may be nested too deeply
		}
		if got, want := ValidJSON(p), json.Valid(p) && utf8.Valid(p); got != want {
			t.Errorf("%v for %q", got, p)
		}
	})
}

// FuzzAppendJSONString checks that encoding/json reads what was written.
func FuzzAppendJSONString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\x00\x1f\x7f\b\f\n\r\t", "äöü 漢字 😀 \u2028", "\xff\xe2\x82", strings.Repeat("long", 20) + "\n", "seven77\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		out := AppendJSONString([]byte("x"), s)
		if out[0] != 'x' || !ValidJSON(out[1:]) || bytes.ContainsAny(out, "\r\n") {
			t.Fatalf("%q is written as %q", s, out)
		}
		var got string
		if err := json.Unmarshal(out[1:], &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(string(s))); got != want {
			t.Fatalf("%q is read as %q", s, got)
		}
	})
}

// TestValidJSONNesting nests objects and arrays at random up to the limit, and then
// closes one of them wrongly.
func TestValidJSONNesting(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		depth := 1 + r.IntN(512)
		opening, closing := "", make([]byte, depth)
		for i := range depth {
			if r.IntN(2) == 0 {
				opening, closing[depth-1-i] = opening+`[{},`, ']'
			} else {
				opening, closing[depth-1-i] = opening+`{"a":[],"b":`, '}'
			}
		}
		// What is empty inside takes a level too.
		want := depth < 512
		if got := ValidJSON([]byte(opening + "0" + string(closing))); got != want {
			t.Fatalf("nested %d deep: %v", depth, got)
		}
		closing[r.IntN(depth)] ^= ']' ^ '}'
		if ValidJSON([]byte(opening + "0" + string(closing))) {
			t.Fatalf("wrongly closed, nested %d deep", depth)
		}
	}
}
