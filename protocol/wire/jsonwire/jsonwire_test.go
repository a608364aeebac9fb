package jsonwire

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestAppendUint(t *testing.T) {
	check := func(n uint64) {
		if got, want := string(AppendUint([]byte("x"), n)), "x"+strconv.FormatUint(n, 10); got != want {
			t.Fatalf("%d is %s", n, got)
		}
	}
	for n := range uint64(20000) {
		check(n)
	}
	for n := uint64(1); n != 0; n *= 10 {
		check(n - 1)
		check(n)
		if n > math.MaxUint64/10 {
			break
		}
	}
	check(math.MaxUint64)
}

// TestValid compares with encoding/json, on objects of the simple shape at every
// length and alignment, and on what becomes of them by one wrong byte.
func TestValid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wrong := []byte("\"\\{}[]:,0 9a-.\n\x00\x1f\x7f\x80\xffé")
	for key := range 20 {
		for value := range 100 {
			text := `{"` + strings.Repeat("k", key) + `":"` + strings.Repeat("v", value) + `","n":` + strconv.Itoa(value) + `}`
			for n := range len(text) + 1 {
				compare(t, []byte(text[:n]))
			}
			p := []byte(text)
			for range 20 {
				i := r.IntN(len(p))
				was := p[i]
				p[i] = wrong[r.IntN(len(wrong))]
				compare(t, p)
				p[i] = was
			}
		}
	}
}

func compare(t *testing.T, p []byte) {
	t.Helper()
	want := json.Valid(p) && strings.ToValidUTF8(string(p), "") == string(p)
	if got := Valid(p); got != want {
		t.Fatalf("Valid(%q) = %v", p, got)
	}
}

// Errors say where the text is malformed.
func TestMalformed(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,2,x]}`:                         `JSON: offset 10, key "a": unexpected character`,
		`{"a":[1,2}`:                            `JSON: offset 9, key "a": unexpected character`,
		`{"a":{"b" 1}}`:                         `JSON: offset 10, key "a": unexpected character`,
		`{"a":{1:1}}`:                           `JSON: offset 6, key "a": unexpected character`,
		`{"a":tru}`:                             `JSON: offset 5, key "a": unexpected character`,
		`{"a":-}`:                               `JSON: offset 6, key "a": unexpected character`,
		`{"a":1.e}`:                             `JSON: offset 7, key "a": unexpected character`,
		`{"a":"b\x"}`:                           `JSON: offset 7, key "a": malformed escape sequence`,
		`{"a":"b\u12g4"}`:                       `JSON: offset 7, key "a": malformed escape sequence`,
		"{\"a\":\"0123456789\n\"}":              `JSON: offset 16, key "a": unexpected control character`,
		`{"a":"b`:                               `JSON: offset 7, key "a": unexpected end`,
		`{"a":"b\`:                              `JSON: offset 8, key "a": unexpected end`,
		`{"a":[{"b":1},`:                        `JSON: offset 14, key "a": unexpected end`,
		`{"a":`:                                 `JSON: offset 5, key "a": unexpected end`,
		`{"a":` + strings.Repeat("[", MaxDepth): `JSON: offset 517, key "a": nested more than 512 deep`,
	} {
		r := NewReader([]byte(text))
		for ok := r.Object(); ok; ok = r.NextMember() {
			r.Skip()
		}
		if err := r.End(); err == nil || err.Error() != want {
			t.Errorf("%.40s: %v, want %s", text, err, want)
		}
	}
}

func TestCut(t *testing.T) {
	rest := []byte(" {\"a\":\n1} [2]\"3\"\n 4\t")
	for _, want := range []string{"{\"a\":\n1}", "[2]", `"3"`, "4"} {
		value, following, err := Cut(rest)
		if err != nil || string(value) != want {
			t.Fatalf("%q, %v, want %q", value, err, want)
		}
		rest = following
	}
	if len(rest) > 0 {
		t.Errorf("%q is left", rest)
	}
	for _, text := range []string{"", " ", "{", "x", "[1"} {
		if value, _, err := Cut([]byte(text)); err == nil {
			t.Errorf("%q: %q", text, value)
		}
	}
}
