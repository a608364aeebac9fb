package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const (
	testChunk = 4 << 10
	testMax   = 1 << 20
)

// reference is a parser as plain as it gets: a value is a string, nil, a list, or a
// line with its type in front.
type reference struct {
	in     *bufio.Reader
	values int
}

type list struct {
	kind  byte
	items []any
}

var errReference = errors.New("not RESP")

func (r *reference) line() (string, error) {
	s, err := r.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(s, "\r\n") || len(s) > maxLine+1 {
		return "", errReference
	}
	return s[:len(s)-2], nil
}

func (r *reference) length(s string) (int, error) {
	if s != "-1" && strings.Trim(s, "0123456789") != "" || s == "" {
		return 0, errReference
	}
	return strconv.Atoi(s)
}

func (r *reference) value(depth int) (kind byte, v any, err error) {
	if kind, err = r.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	if !strings.ContainsRune("$=!+-:,(#_*>~%|", rune(kind)) || depth > maxDepth && aggregate(kind) {
		return 0, nil, errReference
	}
	s, err := r.line()
	if err != nil {
		return 0, nil, err
	}
	switch kind {
	case '+', '-', ':', ',', '(', '#':
		return kind, s, nil
	case '_':
		if s != "" {
			return 0, nil, errReference
		}
		return kind, nil, nil
	}
	n, err := r.length(s)
	if err != nil || n > testMax {
		return 0, nil, errReference
	}
	if !aggregate(kind) {
		if n < 0 {
			return kind, nil, nil
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r.in, data); err != nil {
			return 0, nil, err
		}
		if string(data[n:]) != "\r\n" {
			return 0, nil, errReference
		}
		return kind, string(data[:n]), nil
	}
	return r.list(kind, n, depth)
}

func (r *reference) list(kind byte, n, depth int) (byte, any, error) {
	if n < 0 {
		if kind != '*' {
			return 0, nil, errReference
		}
		return kind, list{kind: kind, items: nil}, nil
	}
	if kind == '%' || kind == '|' {
		n *= 2
	}
	if r.values -= n; r.values < 0 {
		return 0, nil, errReference
	}
	l := list{kind: kind, items: []any{}}
	for range n {
		_, v, err := r.value(depth + 1)
		if err != nil {
			return 0, nil, err
		}
		l.items = append(l.items, v)
	}
	return kind, l, nil
}

// show describes a frame and what the reference made of the same bytes alike.
func show(f *Frame) string {
	if !aggregate(f.Kind) {
		return fmt.Sprintf("%c %q %v", f.Kind, f.Text, f.Text == nil)
	}
	return fmt.Sprintf("%c %d %q", f.Kind, f.Len, f.Items)
}

func showReference(kind byte, v any) string {
	l, ok := v.(list)
	if !ok {
		s, _ := v.(string)
		return fmt.Sprintf("%c %q %v", kind, s, v == nil)
	}
	n := len(l.items)
	if l.items == nil {
		n = -1
	}
	var items [3]string
	for i := range min(3, len(l.items)) {
		items[i], _ = l.items[i].(string)
	}
	return fmt.Sprintf("%c %d %q", kind, n, items)
}

// readAll returns what a reader makes of its source, until its first error.
func readAll(src io.Reader) (values []string, err error) {
	r := NewReader(src, testChunk, testMax)
	for {
		var f Frame
		if err := r.Next(&f); err != nil {
			return values, err
		}
		values = append(values, show(&f))
	}
}

func readReference(src []byte) (values []string, err error) {
	in := bufio.NewReader(bytes.NewReader(src))
	for {
		r := reference{in, maxValues}
		kind, v, err := r.value(1)
		if err != nil {
			return values, err
		}
		if kind != '|' {
			values = append(values, showReference(kind, v))
		}
	}
}

var samples = []string{
	"*3\r\n$7\r\nmessage\r\n$3\r\nfoo\r\n$5\r\nhello\r\n",
	">3\r\n$7\r\nmessage\r\n$3\r\nfoo\r\n$0\r\n\r\n",
	">3\r\n$9\r\nsubscribe\r\n$3\r\nfoo\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n",
	"+PONG\r\n-ERR no\r\n_\r\n#t\r\n,1.5\r\n(123456789012345678901234567890\r\n=5\r\ntxt:x\r\n!3\r\nERR\r\n",
	"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:1\r\n:2\r\n|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n~1\r\n*0\r\n*-1\r\n",
	"*2\r\n$4\r\npong\r\n$0\r\n\r\n",
	"$5000\r\n" + strings.Repeat("x", 5000) + "\r\n+OK\r\n",
	"?1\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n", ">-1\r\n", "$3\r\nabcd\r\n", "+OK\n", "$99999999999999999999\r\n",
	"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*4097\r\n", "$1048577\r\n", "*1", "$", "$-", "$-1", "$1\r", "$1\rx",
}

func TestReader(t *testing.T) {
	for _, s := range samples {
		want, wantErr := readReference([]byte(s))
		for name, src := range map[string]io.Reader{
			"whole": strings.NewReader(s), "bytes": iotest.OneByteReader(strings.NewReader(s)),
			"halves": iotest.HalfReader(strings.NewReader(s)), "data with error": iotest.DataErrReader(strings.NewReader(s)),
		} {
			got, err := readAll(src)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%.60q in %s: %s", s, name, diff)
			}
			checkError(t, s, err, wantErr)
		}
	}
}

// checkError demands that what the reference refuses is refused. The reader may
// refuse earlier: the reference reads a line to its end first.
func checkError(t *testing.T, s string, got, want error) {
	t.Helper()
	var protocol *ProtocolError
	ended := errors.Is(got, io.EOF) || errors.Is(got, io.ErrUnexpectedEOF)
	if refused := errors.As(got, &protocol); !ended && !refused || ended && errors.Is(want, errReference) {
		t.Fatalf("%.60q: error %v, want %v", s, got, want)
	}
}

func TestReaderMessage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"?", `unknown type '?'`},
		{"$1048577\r\n", "value of 1048577 bytes or more exceeds the limit of 1048576"},
		{"*2\r\n$1000000\r\n" + strings.Repeat("x", 1000000) + "\r\n$1000000\r\n", "exceeds the limit"},
		{"*5000\r\n", "more than 4096 elements"},
		{"%4611686018427387905\r\n", "out of range"},
		{"%3000\r\n", "more than 4096 elements"},
		{strings.Repeat("*1\r\n", 20), "nested more than 8 deep"},
		{"+" + strings.Repeat("x", 1<<17), "line of more than 65536 bytes"},
		{"*4096\r\n" + strings.Repeat("+"+strings.Repeat("x", 1000)+"\r\n", 2000), "exceeds the limit"},
	} {
		_, err := readAll(strings.NewReader(c.in))
		var protocol *ProtocolError
		if !errors.As(err, &protocol) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %q", c.in, err, c.want)
		}
	}
}

// A payload keeps its bytes while others are received.
func TestReaderKeepsPayloads(t *testing.T) {
	var in bytes.Buffer
	var want []string
	for i := range 300 {
		payload := strings.Repeat(string(rune('a'+i%26)), i*i%9000)
		fmt.Fprintf(&in, ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$%d\r\n%s\r\n", len(payload), payload)
		want = append(want, payload)
	}
	r := NewReader(iotest.HalfReader(&in), testChunk, testMax)
	var got [][]byte
	for range want {
		var f Frame
		if err := r.Next(&f); err != nil {
			t.Fatal(err)
		}
		got = append(got, append(f.Items[2], 'x')[:len(f.Items[2])]) // appending must not reach the next bytes
	}
	for i := range want {
		if string(got[i]) != want[i] {
			t.Fatalf("payload %d changed", i)
		}
	}
}

// A length that is announced does not make the reader set memory aside for it.
func TestReaderGrowsWithData(t *testing.T) {
	r := NewReader(iotest.OneByteReader(strings.NewReader("$60000000\r\nx")), 64<<10, 64<<20)
	var f Frame
	if err := r.Next(&f); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	if len(r.buf) > trust {
		t.Errorf("chunk of %d bytes for 12 that came", len(r.buf))
	}
	payload := strings.Repeat("x", 5<<20)
	r = NewReader(strings.NewReader(fmt.Sprintf("$%d\r\n%s\r\n+OK\r\n", len(payload), payload)), 64<<10, 64<<20)
	if err := r.Next(&f); err != nil || string(f.Text) != payload {
		t.Fatal("large payload:", err)
	}
	if err := r.Next(&f); err != nil || string(f.Text) != "OK" {
		t.Fatal("after the large payload:", err)
	}
}

// stream repeats the same bytes for ever.
type stream struct {
	data []byte
	pos  int
}

func (s *stream) Read(p []byte) (int, error) {
	n := copy(p, s.data[s.pos:])
	s.pos = (s.pos + n) % len(s.data)
	return n, nil
}

func messages(payload int) *stream {
	one := fmt.Sprintf(">3\r\n$7\r\nmessage\r\n$24\r\ncentrifugo.client.chat:4\r\n$%d\r\n%s\r\n", payload, strings.Repeat("x", payload))
	return &stream{data: []byte(strings.Repeat(one, 100))}
}

func TestReaderAllocs(t *testing.T) {
	r := NewReader(messages(100), 64<<10, testMax)
	var f Frame
	if n := testing.AllocsPerRun(100_000, func() {
		if err := r.Next(&f); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{16, 100, 1000, 10_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			r := NewReader(messages(size), 64<<10, testMax)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var f Frame
			for b.Loop() {
				if err := r.Next(&f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzReader compares with the reference, however the bytes are split.
func FuzzReader(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s), uint16(7))
	}
	f.Fuzz(func(t *testing.T, data []byte, split uint16) {
		got, err := readAll(bytes.NewReader(data))
		parts, errParts := readAll(&splitter{data: data, n: int(split)%9 + 1})
		if diff := cmp.Diff(got, parts); diff != "" || err.Error() != errParts.Error() {
			t.Fatalf("depends on the split: %s\n%v\n%v", diff, err, errParts)
		}
		want, wantErr := readReference(data)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("reference differs: %s\n%v\n%v", diff, err, wantErr)
		}
		checkError(t, string(data), err, wantErr)
	})
}

// splitter returns n bytes at a time.
type splitter struct {
	data []byte
	n    int
}

func (s *splitter) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.n)], s.data)
	s.data = s.data[n:]
	return n, nil
}
