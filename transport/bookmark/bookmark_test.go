package bookmark

import (
	"maps"
	"net/textproto"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro/channel"
)

// write makes a bookmark of positions, as a session does.
func write(positions map[string]channel.StreamPosition) string {
	line := []byte(Prefix)
	for ch, at := range positions {
		line = Add(line, ch, at.Offset, at.Epoch)
	}
	return strings.TrimPrefix(string(line), Prefix)
}

// TestRoundTrip: whatever channels and epochs are called, the positions come back, in printable ASCII.
func TestRoundTrip(t *testing.T) {
	names := rapid.OneOf(rapid.StringN(1, 20, -1), rapid.StringMatching(`[%&=. #:\x00-\x20]{1,8}`), rapid.SampledFrom([]string{"news", "a=b&c", "\xff", "id: "}))
	rapid.Check(t, func(t *rapid.T) {
		positions := make(map[string]channel.StreamPosition)
		for range rapid.IntRange(1, 5).Draw(t, "channels") {
			positions[names.Draw(t, "channel")] = channel.StreamPosition{Offset: rapid.Uint64().Draw(t, "offset"), Epoch: names.Draw(t, "epoch")}
		}
		text := write(positions)
		if got := Parse(text); !maps.Equal(got, positions) {
			t.Fatalf("%q: got %v, want %v", text, got, positions)
		}
		for _, c := range []byte(text) {
			if c <= ' ' || c >= 0x7f {
				t.Fatalf("%q has the byte %#x", text, c)
			}
		}
		if textproto.TrimString(text) != text {
			t.Fatalf("%q is changed as a field of HTTP", text)
		}
	})
}

func TestText(t *testing.T) {
	line := Add(Add([]byte(Prefix), "news", 12, "AbCd"), "chat:a b#7", 0, "x%y")
	if want := "id: news=12.AbCd&chat:a%20b#7=0.x%25y"; string(line) != want {
		t.Errorf("got %q, want %q", line, want)
	}
}

// TestForeign: what is no bookmark names no positions.
func TestForeign(t *testing.T) {
	for _, text := range []string{
		"", "42", "urn:uuid:6ba7b810", "news", "news=", "news=12", "news=12.", "news=.e", "news=-1.e", "news=x.e", "=1.e",
		"news=18446744073709551616.e", "news=1.e&", "&news=1.e", "news=1.e&&a=1.e", "news=1.e&news=2.e", "ne ws=1.e", "n=1.e\n",
		"n%=1.e", "n%4=1.e", "n%zz=1.e", "n%61=1.e", "n%0a=1.e", "n%+1=1.e", "n=1.%", "ü=1.e", "n=1.e&m", `{"news":{"offset":1}}`,
	} {
		if got := Parse(text); got != nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestSize: an entry takes no more than Size says.
func TestSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ch := rapid.String().Draw(t, "channel")
		if n := len(Add([]byte("id: x"), ch, 1<<64-1, strings.Repeat("e", 64))) - len("id: x"); n > Size(ch) {
			t.Fatalf("%q: %d bytes, Size is %d", ch, n, Size(ch))
		}
	})
}

// FuzzParse: what Parse accepts, Add writes in the same way.
func FuzzParse(f *testing.F) {
	f.Add("news=12.AbCd&chat:a%20b=0.x")
	f.Add("a=01.e")
	f.Add("%00=1.%25")
	f.Fuzz(func(t *testing.T, text string) {
		positions := Parse(text)
		if again := Parse(write(positions)); positions != nil && !maps.Equal(again, positions) {
			t.Fatalf("%q: %v, and again %v", text, positions, again)
		}
	})
}

func TestAllocations(t *testing.T) {
	line := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { Add(Add(append(line, Prefix...), "news room", 12, "AbCd"), "more", 1<<60, "AbCd") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
