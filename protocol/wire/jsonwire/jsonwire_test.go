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

// TestDouble compares with encoding/json.
func TestDouble(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, 1, -1.5, 0.1, 1e-7, 1e20, 1e21, math.MaxFloat64, math.SmallestNonzeroFloat64}
	for range 1000 {
		if v := math.Float64frombits(random.Uint64()); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	for _, v := range values {
		text := AppendDouble(nil, v)
		r, got, want := NewReader(text), 0.0, 0.0
		r.Double(&got)
		if err := json.Unmarshal(text, &want); err != nil || r.End() != nil || got != v || want != v {
			t.Errorf("%g is %s, and is read as %g", v, text, got)
		}
	}
	for text, ok := range map[string]bool{"null": true, "1e400": false, `"1"`: false, "-": false, "true": false} {
		r, got := NewReader([]byte(text)), 0.0
		if r.Double(&got); (r.End() == nil) != ok || got != 0 {
			t.Errorf("%s is read as %g: %v", text, got, r.End())
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		if text := AppendDouble(nil, v); string(text) != "0" {
			t.Errorf("%g is %s", v, text)
		}
	}
}

// TestValid compares with encoding/json, on objects of the simple shape at every
// length and alignment, and on what becomes of them by one wrong byte.
func TestValid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	wrong := []byte("\"\\{}[]:,0 9a-.\n\x00\x1f\x7f\x80\xffé")
	for key := range 9 { // each alignment
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
