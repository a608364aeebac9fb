package fossil

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/fossil/fossiltest"
)

// raceEnabled is set under the race detector, which allocates on its own.
var raceEnabled bool

const (
	kitchen1 = `{"value":1,"unit":"celsius","sensor":"kitchen-1"}`
	kitchen2 = `{"value":2,"unit":"celsius","sensor":"kitchen-1"}`
	// golden is a delta that was made by hand.
	golden = "m\nA:{\"value\":2c@A,33v0MH;"
)

func TestAppend(t *testing.T) {
	const part = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, test := range []struct{ name, base, target, ops string }{
		{"both empty", "", "", ""},
		{"empty target", "something", "", ""},
		{"empty base", "", "abc", "3:abc"},
		{"equal", kitchen1, kitchen1, "m@0,"},
		{"equal, but a copy costs more", "abcd", "abcd", "4:abcd"},
		{"one character differs", kitchen1, kitchen2, "9@0,1:2c@A,"},
		{"appended", part, part + "!", "_@0,1:!"},
		{"removed at the end", part + "!", part, "_@0,"},
		{"inserted at the start", part, "!" + part, "1:!_@0,"},
		{"removed at the start", "!" + part, part, "_@1,"},
		{"repeated", part, part + part, "_@0,_@0,"},
		{"moved", part + "<>" + part[5:], "(" + part[5:] + ")", "1:(V@b,1:)"},
		{"changed at both ends", "<" + part + ">", "(" + part + ")", "1:(_@1,1:)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := []byte(test.target)
			got := string(Append([]byte("before"), []byte(test.base), target))
			want := "before" + string(appendInt(nil, uint64(len(target)))) + "\n" + test.ops +
				string(appendInt(nil, uint64(checksum(target)))) + ";"
			if got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestGolden(t *testing.T) {
	if got, err := fossiltest.Apply([]byte(kitchen1), []byte(golden)); err != nil || string(got) != kitchen2 {
		t.Errorf("%q, %v", got, err)
	}
	if ours := Append(nil, []byte(kitchen1), []byte(kitchen2)); len(ours) > len(golden) {
		t.Errorf("%q is longer than %q", ours, golden)
	}
}

func TestInt(t *testing.T) {
	for v, want := range map[uint64]string{
		0: "0", 9: "9", 10: "A", 35: "Z", 36: "_", 37: "a", 62: "z", 63: "~", 64: "10", 4095: "~~", 4096: "100",
		1<<32 - 1: "3~~~~~",
	} {
		got := appendInt(nil, v)
		if string(got) != want || intLen(v) != len(want) {
			t.Errorf("%d: %q with %d digits, want %q", v, got, intLen(v), want)
		}
	}
}

func TestChecksum(t *testing.T) {
	for in, want := range map[string]uint32{
		"": 0, "\x01": 1 << 24, "\x01\x02": 0x01020000, "\x01\x02\x03": 0x01020300, "\x01\x02\x03\x04": 0x01020304,
		"\xff\xff\xff\xff\x00\x00\x00\x02": 1, "\x00\x00\x00\x01\xff": 0xff000001,
	} {
		if got := checksum([]byte(in)); got != want {
			t.Errorf("%x: %x, want %x", in, got, want)
		}
	}
}

// check makes a delta, applies it, and holds it against what Append promises.
func check(t testing.TB, base, target []byte) []byte {
	t.Helper()
	delta := Append(nil, base, target)
	got, err := fossiltest.Apply(base, delta)
	if err != nil || !bytes.Equal(got, target) {
		t.Fatalf("base %.200q, target %.200q: delta %.200q makes %.200q, %v", base, target, delta, got, err)
	}
	if utf8.Valid(target) && !utf8.Valid(delta) {
		t.Fatalf("base %.200q, target %.200q: delta %.200q is no UTF-8", base, target, delta)
	}
	// At worst a delta is one insert.
	if most := len(target) + 3*intLen(uint64(len(target))) + 10; len(delta) > most {
		t.Fatalf("base %.200q, target %.200q: %d bytes, at most %d", base, target, len(delta), most)
	}
	return delta
}

// TestCharacters changes single characters that share their first bytes with
// others. No insert may hold a part of one.
func TestCharacters(t *testing.T) {
	const text = "%s Привет, мир — это проверка %s 日本語のテキスト %s 🙂🙃🙂 %s"
	letters := []string{"а", "б", "я", "é", "è", "日", "旦", "🙂", "🙃", "a", ""}
	for range 2000 {
		pick := func() []any {
			var p []any
			for range 4 {
				p = append(p, letters[rand.IntN(len(letters))])
			}
			return p
		}
		check(t, fmt.Appendf(nil, text, pick()...), fmt.Appendf(nil, text, pick()...))
	}
	got := Append(nil, []byte(strings.Repeat("й", 30)+"я"+strings.Repeat("ж", 30)), []byte(strings.Repeat("й", 30)+"ю"+strings.Repeat("ж", 30)))
	if !bytes.Contains(got, []byte("2:ю")) {
		t.Errorf("%q does not insert the one letter alone", got)
	}
}

// edit makes a random relative of p.
func edit(r *rand.Rand, p []byte) []byte {
	out := bytes.Clone(p)
	for range 1 + r.IntN(4) {
		at := r.IntN(len(out) + 1)
		piece := make([]byte, r.IntN(30))
		for i := range piece {
			piece[i] = byte(r.IntN(256))
		}
		switch r.IntN(4) {
		case 0: // insert
			out = append(out[:at:at], append(piece, out[at:]...)...)
		case 1: // remove
			out = append(out[:at:at], out[min(len(out), at+len(piece)):]...)
		case 2: // change
			copy(out[at:], piece)
		case 3: // move
			out = append(out[at:len(out):len(out)], out[:at]...)
		}
	}
	return out
}

func TestRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		base := make([]byte, r.IntN(1<<r.IntN(12)))
		symbols := 1 + r.IntN(256)
		for i := range base {
			base[i] = byte(r.IntN(symbols))
		}
		check(t, base, edit(r, base))
	}
}

// TestRelated checks that deltas are not only right but small.
func TestRelated(t *testing.T) {
	base, target := documents()
	shuffled := append(bytes.Clone(target[512:]), target[:512]...)
	for _, test := range []struct {
		name   string
		target []byte
		most   int
	}{
		{"equal", base, 20},
		{"one field", target, 40},
		{"halves swapped", shuffled, 80},
		{"behind much that is new", append(noise(8192), base...), 8192 + 250},
		{"twice", append(bytes.Clone(base), base...), 30},
	} {
		if delta := check(t, base, test.target); len(delta) > test.most {
			t.Errorf("%s: %d bytes, at most %d: %q", test.name, len(delta), test.most, delta)
		}
	}
}

// TestWorkBudget gives the encoder inputs with very many equal blocks, all of which
// could match. An encoder that tried them all would need minutes.
func TestWorkBudget(t *testing.T) {
	if raceEnabled {
		t.Skip("too slow")
	}
	const n = 1 << 20
	zeros := make([]byte, n)
	blocks := bytes.Repeat([]byte("0123456789abcdef"), n/16)
	nearly := bytes.Repeat([]byte("0123456789abcdeX"), n/16)
	uneven := bytes.Repeat([]byte("0123456789abcdef-"), n/17)
	scattered := bytes.Clone(zeros)
	for i := 0; i < n; i += 24 {
		scattered[i] = 1
	}
	inputs := map[string][]byte{"zeros": zeros, "blocks": blocks, "nearly": nearly, "uneven": uneven, "scattered": scattered}
	for baseName, base := range inputs {
		for targetName, target := range inputs {
			target = append(append([]byte("<"), target...), '>') // neither head nor tail
			start := time.Now()
			delta := check(t, base, target)
			took := time.Since(start)
			t.Logf("%s to %s: %d bytes in %v", baseName, targetName, len(delta), took)
			if took > wait.Limit {
				t.Error("too much work")
			}
		}
	}
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

func FuzzAppend(f *testing.F) {
	f.Add([]byte(kitchen1), []byte(kitchen2))
	f.Add([]byte(""), []byte(""))
	f.Add(bytes.Repeat([]byte("я"), 40), bytes.Repeat([]byte("ю"), 40))
	f.Add(bytes.Repeat([]byte("ab"), 40), bytes.Repeat([]byte("ba"), 41))
	f.Fuzz(func(t *testing.T, base, target []byte) {
		check(t, base, target)
		// Relatives of base are found, too.
		n := uint64(len(target))
		check(t, base, edit(rand.New(rand.NewPCG(n, n)), base))
	})
}

// documents are 1 KB of JSON before and after the change of a field.
func documents() (base, target []byte) {
	var b strings.Builder
	b.WriteString(`{"id":"order-1937","rows":[`)
	for i := range 12 {
		fmt.Fprintf(&b, `{"row":%d,"name":"item number %d","price":%d.99,"currency":"EUR","left":%d},`, i, i*7, i*13, i*3)
	}
	b.WriteString(`null]}`)
	text := b.String()
	return []byte(text), []byte(strings.Replace(text, `"price":65.99`, `"price":7.5`, 1))
}

func BenchmarkAppend(b *testing.B) {
	base, target := documents()
	scattered := []byte(strings.NewReplacer(`"left":3}`, `"left":4}`, `"left":30}`, `"left":1}`, "order-1937", "order-2").Replace(string(base)))
	for _, c := range []struct {
		name   string
		target []byte
	}{{"one field", target}, {"three fields", scattered}, {"nothing in common", noise(len(base))}} {
		b.Run(c.name, func(b *testing.B) {
			var dst []byte
			b.SetBytes(int64(len(c.target)))
			b.ReportAllocs()
			for b.Loop() {
				dst = Append(dst[:0], base, c.target)
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	base, target := documents()
	swapped := append(bytes.Clone(target[512:]), target[:512]...)
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		dst = Append(dst[:0], base, target)
		dst = Append(dst[:0], base, swapped)
	}); n > 0 {
		t.Errorf("Append: %v allocations", n)
	}
}
