package conn

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

func ask(answer string) ([]string, error) {
	q := query{from: bufio.NewReader(strings.NewReader(answer))}
	return q.reply()
}

func TestReply(t *testing.T) {
	for answer, want := range map[string][]string{
		"+OK\r\n":                            {"OK"},
		":12\r\n":                            {"12"},
		"$5\r\na\r\nbc\r\n":                  {"a\r\nbc"},
		"$-1\r\n":                            {""},
		"*-1\r\n":                            nil,
		"*0\r\n":                             nil,
		"*2\r\n$4\r\nhost\r\n$4\r\n6379\r\n": {"host", "6379"},
	} {
		if got, err := ask(answer); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", answer, got, err, want)
		}
	}
	for _, answer := range []string{
		"", "\r\n", "x\r\n", "+OK", "-ERR no\r\n", "$x\r\n", "$5\r\nabc", "$99999999\r\n", "*99999999\r\n", "*1\r\n", "*1\r\n*1\r\n+x\r\n",
		"*x\r\n", "?\r\n", "+" + strings.Repeat("x", 1<<20),
	} {
		if got, err := ask(answer); err == nil {
			t.Errorf("%.20q: %q", answer, got)
		}
	}
}

// FuzzReply checks that no answer does harm, and that none yields more than it has.
func FuzzReply(f *testing.F) {
	f.Add("*2\r\n$4\r\nhost\r\n$4\r\n6379\r\n")
	f.Add("-ERR no\r\n")
	f.Fuzz(func(t *testing.T, answer string) {
		elements, err := ask(answer)
		size := 0
		for _, e := range elements {
			size += len(e)
		}
		if err == nil && (size > len(answer) || len(elements) > maxElements) {
			t.Fatalf("%d elements of %d bytes in %q", len(elements), size, answer)
		}
	})
}
