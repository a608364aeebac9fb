package jsonx

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gyrohq/gyro/protocol/codec"
)

func TestStrings(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `""`: "", `null`: "", ` "a" `: "a",
		`"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t",
		`"\u00e9\u20ac"`:     "é€", `"é"`: "é",
		`"\ud83d\ude00"`: "😀", `"\ud83d"`: "\ufffd", `"\ude00x"`: "\ufffdx",
		`"\ud83d\u0041"`: "\ufffdA", `"\ud83d\n"`: "\ufffd\n",
	} {
		d := NewDecoder([]byte(in))
		if got := d.String(); d.End() != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", in, got, d.Err(), want)
		}
	}
	for _, in := range []string{``, `"`, `"a`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, "\"\n\"", "\"\xff\"",
		"\"\xe2\x82\"", `1`, `true`, `{}`, `nul`, `"a" b`, `'a'`} {
		d := NewDecoder([]byte(in))
		if got := d.String(); d.End() == nil {
			t.Errorf("%s: accepted as %q", in, got)
		}
	}
}

// Strings that share memory are none the less what was sent, whatever their number
// and length.
func TestStringLists(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		want := make([]string, random.IntN(1000))
		for i := range want {
			want[i] = strings.Repeat(string(rune('a'+random.IntN(1000))), random.IntN(20))
			if random.IntN(100) == 0 {
				want[i] = strings.Repeat("\"long\n", random.IntN(4000))
			}
		}
		in, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(slices.Concat([]byte(" "), in, []byte(strings.Repeat(" ", random.IntN(2000)))))
		got := d.Strings()
		if d.End() != nil || !slices.Equal(got, want) {
			t.Fatalf("%d strings: got %d, %v", len(want), len(got), d.Err())
		}
		if room := cap(got); room > 9*len(got)+16 {
			t.Fatalf("%d strings in a list with room for %d", len(got), room)
		}
	}
	d := NewDecoder([]byte(`null`))
	if got := d.Strings(); got != nil || d.End() != nil {
		t.Errorf("null: %q, %v", got, d.Err())
	}
	for _, in := range []string{`["a"`, `["a",`, `["a",1]`, `{"a":1}`, `"a"`, `["a" "b"]`} {
		d := NewDecoder([]byte(in))
		if got := d.Strings(); d.End() == nil {
			t.Errorf("%s: accepted as %q", in, got)
		}
	}
}

func TestIntegers(t *testing.T) {
	signed := map[string]int64{"0": 0, "-0": 0, "null": 0, "9223372036854775807": math.MaxInt64,
		"-9223372036854775808": math.MinInt64}
	for in, want := range signed {
		d := NewDecoder([]byte(in))
		if got := d.Int64(); d.End() != nil || got != want {
			t.Errorf("%s: got %d, %v", in, got, d.Err())
		}
	}
	d := NewDecoder([]byte("18446744073709551615"))
	if got := d.Uint64(); d.End() != nil || got != math.MaxUint64 {
		t.Errorf("uint64: got %d, %v", got, d.Err())
	}
	bad := []struct {
		in   string
		read func(*Decoder)
	}{
		{"9223372036854775808", func(d *Decoder) { d.Int64() }},
		{"18446744073709551616", func(d *Decoder) { d.Uint64() }},
		{"-1", func(d *Decoder) { d.Uint64() }},
		{"4294967296", func(d *Decoder) { d.Uint32() }},
		{"2147483648", func(d *Decoder) { d.Int32() }},
		{"-2147483649", func(d *Decoder) { d.Int32() }},
	}
	for _, in := range []string{"1.5", "1.0", "1e2", "01", "-", "+1", `"1"`, "true", "", "1x", ".5", "NaN", "0x1"} {
		bad = append(bad, struct {
			in   string
			read func(*Decoder)
		}{in, func(d *Decoder) { d.Int64() }})
	}
	for _, tt := range bad {
		d := NewDecoder([]byte(tt.in))
		if tt.read(&d); d.End() == nil {
			t.Errorf("%s: accepted", tt.in)
		}
	}
}

func TestObjects(t *testing.T) {
	d := NewDecoder([]byte(` { "CHANNEL" : "x" , "other": [1, {"a": null}], "Ch\u0061nnel":"y", "tags":{"A":"1","b":null,"A":"2"},` +
		`"list":["a",null,"b"],"ok":true,"raw": {"a" : [1 ,2]} , "` + strings.Repeat("n", 100) + `": 1} `))
	var ch, raw string
	var tags map[string]string
	var list []string
	var yes bool
	for ok := d.Object(); ok; ok = d.NextMember() {
		switch string(d.Name()) {
		case "channel":
			ch = d.String()
		case "tags":
			tags = d.StringMap()
		case "list":
			list = d.Strings()
		case "ok":
			yes = d.Bool()
		case "raw":
			raw = string(d.Raw())
		default:
			d.Skip()
		}
	}
	if err := d.End(); err != nil {
		t.Fatal(err)
	}
	if ch != "y" || raw != `{"a" : [1 ,2]}` || !yes || !reflect.DeepEqual(list, []string{"a", "", "b"}) ||
		!reflect.DeepEqual(tags, map[string]string{"A": "2", "b": ""}) {
		t.Errorf("got %q %q %v %v %v", ch, raw, yes, list, tags)
	}
}

func TestElementsAreBounded(t *testing.T) {
	list := "[" + strings.Repeat(`"",`, MaxElements) + `""]`
	d := NewDecoder([]byte(list))
	if d.Strings(); d.Err() == nil {
		t.Error("a list above the limit was accepted")
	}
	d = NewDecoder([]byte("[" + strings.Repeat(`"",`, MaxElements-1) + `""]`))
	if n := len(d.Strings()); d.End() != nil || n != MaxElements {
		t.Errorf("a list at the limit: %d, %v", n, d.Err())
	}
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if !Valid([]byte(deep)) || Valid([]byte("["+deep+"]")) {
		t.Error("depth limit is not exact")
	}
}

func TestErrorsNameTheOffset(t *testing.T) {
	d := NewDecoder([]byte(`{"channel": 7}`))
	for ok := d.Object(); ok; ok = d.NextMember() {
		_ = d.String()
	}
	var e *SyntaxError
	if !errors.As(d.End(), &e) || e.Offset != 12 || e.Error() != "invalid JSON at byte 12: string expected" {
		t.Errorf("got %v", d.Err())
	}
}

func TestWriter(t *testing.T) {
	var w Writer
	w.Begin('{')
	w.StringMember("s", "a\"\\\n\r\t\x01\x7fé\u2028"+"\xff")
	w.StringMember("empty", "")
	w.UintMember("u", math.MaxUint64)
	w.IntMember("i", math.MinInt64)
	w.TrueMember("t", true)
	w.TrueMember("f", false)
	w.RawMember("r", []byte(" {\"a b\" : [1, 2 , \"\\\" \"]}\n"))
	w.RawMember("no", nil)
	w.MapMember("m", map[string]string{"k\"": "v"})
	w.MapMember("nomap", nil)
	w.Name("list")
	w.Begin('[')
	w.Element()
	w.Int(1)
	w.Element()
	w.Begin('{')
	w.End('}')
	w.End(']')
	w.End('}')
	want := `{"s":"a\"\\\n\r\t\u0001` + "\x7fé\u2028" + `\ufffd","u":18446744073709551615,"i":-9223372036854775808,"t":true,` +
		`"r":{"a b":[1,2,"\" "]},"m":{"k\"":"v"},"list":[1,{}]}`
	if w.Err != nil || string(w.Buf) != want {
		t.Errorf("got  %s, %v\nwant %s", w.Buf, w.Err, want)
	}
	w.Raw([]byte("\x00binary"))
	if !errors.Is(w.Err, ErrNotJSON) {
		t.Errorf("binary: %v", w.Err)
	}
}

// TestDepth: what is accepted as a payload can be delivered to JSON clients.
func TestDepth(t *testing.T) {
	for _, depth := range []int{MaxDepth - 1, MaxDepth, MaxDepth + 1} {
		for _, open := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			text := []byte(strings.Repeat(open[0], depth) + "1" + strings.Repeat(open[1], depth))
			if got := Valid(text); got != (depth <= MaxDepth) || got != codec.ValidJSON(text) {
				t.Errorf("%d times %s: %v, package codec: %v", depth, open[0], got, codec.ValidJSON(text))
			}
		}
	}
}

// FuzzValid checks the grammar against encoding/json, which differs only in the
// acceptance of invalid UTF-8.
func FuzzValid(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,true,false,null,"\u00e9\\"]}`, ` [] `, `01`, `"\ud800"`, "\"\xff\"", `{"a":1,}`, `1 2`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > MaxDepth {
			return // may be nested too deeply
		}
		want := json.Valid(data) && utf8.Valid(data)
		if got := Valid(data); got != want {
			t.Fatalf("Valid(%q) = %v, want %v", data, got, want)
		}
		if !want {
			return
		}
		var w Writer
		w.Raw(data)
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil || w.Err != nil {
			t.Fatal(err, w.Err)
		}
		if !bytes.Equal(w.Buf, compact.Bytes()) {
			t.Fatalf("compact %q: got %q, want %q", data, w.Buf, compact.Bytes())
		}
	})
}

// FuzzString checks that strings survive writing and reading, and that both
// agree with encoding/json.
func FuzzString(f *testing.F) {
	f.Add("a\"\\/\n\u2028😀", []byte(`"\ud83d\ude00\u0000"`))
	f.Add("\xff", []byte(`"\ud800\ud800\udc00"`))
	f.Fuzz(func(t *testing.T, s string, doc []byte) {
		var w Writer
		w.String(s)
		var std string
		if err := json.Unmarshal(w.Buf, &std); err != nil || std != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q was written as %s, read as %q: %v", s, w.Buf, std, err)
		}
		d := NewDecoder(w.Buf)
		if got := d.String(); d.End() != nil || got != std {
			t.Fatalf("%s: got %q, %v; encoding/json %q", w.Buf, got, d.Err(), std)
		}
		d = NewDecoder(doc)
		got := d.String()
		err := d.End()
		std = ""
		stdErr := json.Unmarshal(doc, &std)
		if (err == nil) != (stdErr == nil && utf8.Valid(doc)) || err == nil && got != std {
			t.Fatalf("%q: got %q, %v; encoding/json %q, %v", doc, got, err, std, stdErr)
		}
	})
}

// Copies that share memory are none the less what was copied, and whoever appends to
// one changes no other.
func TestArena(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var a Arena
	var texts []string
	var copies [][]byte
	for i := range 5000 {
		size := random.IntN(100)
		if i%100 == 0 {
			size = random.IntN(3 * arenaMax)
		}
		b := bytes.Repeat([]byte{byte(i)}, size)
		texts, copies = append(texts, a.String(b)), append(copies, a.Bytes(b))
		clear(b)
		_ = append(copies[random.IntN(len(copies))], 0xff)
	}
	for i, text := range texts {
		if strings.Trim(text, string([]byte{byte(i)})) != "" || string(copies[i]) != text || cap(copies[i]) != len(text) {
			t.Fatalf("copy %d is %q, %q", i, text, copies[i])
		}
	}
	if a.Bytes(nil) != nil || a.Bytes([]byte{}) == nil {
		t.Error("nil and empty are not told apart")
	}
}
