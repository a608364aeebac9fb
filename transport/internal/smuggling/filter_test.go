package smuggling

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// requests that have one end, in the eyes of every server.
var plain = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length:  5 \r\n\r\nhello",
	"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: chunked\r\nTrailer: X\r\n\r\n1 \r\nx\r\n0\r\nX: y\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encodings: x\r\nContent-Lengt: 7\r\nX:\tfolded? no\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nUpgrad: websocket\r\n\r\n",
}

// ambiguous requests, with where they are cut.
var ambiguous = map[string]string{
	"both lengths":             "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding|: chunked\r\n\r\n0\r\n\r\n",
	"both, the other way":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\ncontent-length|: 5\r\n\r\n0\r\n\r\n",
	"two lengths":              "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length|: 5\r\n\r\nhello",
	"two encodings":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding|: chunked\r\n\r\n0\r\n\r\n",
	"a list of lengths":        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5|, 5\r\n\r\nhello",
	"a length in two parts":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 |5\r\n\r\nhello",
	"a sign":                   "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: |+5\r\n\r\nhello",
	"no digits":                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:|\r\n\r\nhello",
	"a length of 20 digits":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000000000000|00\r\n\r\nhello",
	"an encoding in 1.0":       "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding|: chunked\r\n\r\n0\r\n\r\n",
	"a folded field":           "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n| Content-Length: 5\r\n\r\nhello",
	"folded with a tab":        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n|\tchunked\r\n\r\n0\r\n\r\n",
	"LF behind the line":       "POST / HTTP/1.1|\nHost: a\r\n\r\n",
	"LF behind a field":        "POST / HTTP/1.1\r\nHost: a|\nContent-Length: 5\r\n\r\nhello",
	"LF in a name":             "POST / HTTP/1.1\r\nHost: a\r\nX|\nContent-Length: 5\r\n\r\nhello",
	"LF behind a length":       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5|\n\r\nhello",
	"LF for the empty line":    "POST / HTTP/1.1\r\nHost: a\r\n|\nGET / HTTP/1.1\r\n",
	"CR in a value":            "POST / HTTP/1.1\r\nHost: a\r\nX: a\r|b\r\n\r\n",
	"CR behind the empty line": "POST / HTTP/1.1\r\nHost: a\r\n\r|\r\n",
}

// bodies that end nowhere, or in two places.
var broken = map[string]string{
	"LF behind a size":    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5|\nhello\r\n0\r\n\r\n",
	"LF in an extension":  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a|\nhello\r\n0\r\n\r\n",
	"no size":             "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n|\r\n0\r\n\r\n",
	"no digit":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0|x5\r\nhello\r\n0\r\n\r\n",
	"a size of 20 digits": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100000000000000|000000\r\nhello\r\n0\r\n\r\n",
	"a longer chunk":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello|w\r\n0\r\n\r\n",
	"LF behind a chunk":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello|\n0\r\n\r\n",
	"LF behind a trailer": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y|\n\r\n",
	"a folded trailer":    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n| z\r\n\r\n",
	"LF for the last CR":  "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n|\n",
}

// feed gives a guard data in pieces of some size.
func feed(g *Filter, data string, size int) (passed int, v Verdict) {
	for len(data) > 0 {
		piece := data[:min(size, len(data))]
		n, v := g.Pass([]byte(piece))
		passed += n
		if v != Passed {
			return passed, v
		}
		data = data[len(piece):]
	}
	return passed, Passed
}

func TestPassed(t *testing.T) {
	all := "\r\n" + strings.Join(plain, "")
	for size := 1; size <= len(all); size++ {
		var g Filter
		if n, v := feed(&g, all, size); n != len(all) || v != Passed || g.state != begin {
			t.Fatalf("in pieces of %d: %d of %d bytes passed, verdict %d, state %d", size, n, len(all), v, g.state)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, texts := range map[Verdict]map[string]string{Refused: ambiguous, Broken: broken} {
		for name, text := range texts {
			before, after, _ := strings.Cut(text, "|")
			for size := 1; size <= len(text); size++ {
				var g Filter
				if n, v := feed(&g, plain[2]+before+after, size); n != len(plain[2]+before) || v != want {
					t.Fatalf("%s, in pieces of %d: passed %q, verdict %d, want %d", name, size, (plain[2] + before + after)[:n], v, want)
				}
				if n, v := feed(&g, Refusal, 1); n != len(Refusal) || v != Passed {
					t.Fatalf("%s: the refusal did not pass", name)
				}
			}
		}
	}
}

const switchRequest = "GET / HTTP/1.1\r\nHost: a\r\nUPGRADE: websocket\r\n\r\n"

// What follows a request for another protocol is held until the server has answered.
func TestSwitch(t *testing.T) {
	var g Filter
	const frames = "\x81\n\n\n"
	if n, v := g.Pass([]byte(switchRequest + frames)); n != len(switchRequest) || v != Waiting || !g.Waits() {
		t.Fatalf("%d passed, verdict %d", n, v)
	}
	g.Peek(frames[0])
	if v := g.Answer([]byte("HTTP/1.1 103 Early Hints\r\n")); v != Waiting {
		t.Fatal("an informational answer ended the wait")
	}
	if v := g.Answer([]byte("HTTP/1.1 101 Switching Protocols\r\n")); v != Passed || g.Waits() {
		t.Fatalf("verdict %d on the switch", v)
	}
	if n, v := g.Pass([]byte(frames[1:])); n != len(frames)-1 || v != Passed {
		t.Fatalf("%d passed of another protocol, verdict %d", n, v)
	}
}

// A client that did not get another protocol goes on with HTTP, and is judged.
func TestNoSwitch(t *testing.T) {
	for _, peeked := range []int{0, 1} {
		var g Filter
		g.Pass([]byte(switchRequest))
		next := strings.Replace(ambiguous["both lengths"], "|", "", 1)
		for _, c := range []byte(next[:peeked]) {
			g.Peek(c)
		}
		if v := g.Answer([]byte("HTTP/1.1 404 Not Found\r\n")); v != Passed || g.Waits() {
			t.Fatalf("verdict %d on the answer", v)
		}
		if n, v := g.Pass([]byte(next[peeked:])); v != Refused || n == 0 {
			t.Fatalf("%d peeked: %d passed, verdict %d", peeked, n, v)
		}
	}
}

// A handler that reads before it answers has not read requests.
func TestReadTooEarly(t *testing.T) {
	var g Filter
	g.Pass([]byte(switchRequest))
	g.Peek('G')
	g.Peek('E')
	if v := g.Answer([]byte("HTTP/1.1 404 Not Found\r\n")); v != Broken {
		t.Fatalf("verdict %d", v)
	}
}

func TestPriorKnowledge(t *testing.T) {
	var g Filter
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\n\n"
	if n, v := g.Pass([]byte(preface)); n != len(preface) || v != Passed {
		t.Fatalf("%d passed, verdict %d", n, v)
	}
}

// count returns how many requests net/http reads, and whether it read all that there is.
func count(data []byte) (n int, all bool) {
	r := bufio.NewReader(bytes.NewReader(data))
	for {
		if _, err := r.Peek(1); err != nil {
			return n, true
		}
		q, err := http.ReadRequest(r)
		if err != nil {
			return n, false
		}
		if _, err = io.Copy(io.Discard, q.Body); err != nil {
			return n, false
		}
		n++
	}
}

// FuzzGuard compares the guard with net/http: of what has passed, net/http reads as many requests, unless
// it refuses one.
func FuzzGuard(f *testing.F) {
	for _, text := range plain {
		f.Add([]byte(text + plain[0]))
	}
	for _, texts := range []map[string]string{ambiguous, broken} {
		for _, text := range texts {
			f.Add([]byte(strings.Replace(text, "|", "", 1) + plain[0]))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, single Filter
		n, v := whole.Pass(data)
		if m, w := feed(&single, string(data), 1); m != n || v != w {
			t.Fatalf("%d and verdict %d, by single bytes %d and %d", n, v, m, w)
		}
		if v != Passed || bytes.HasPrefix(data, []byte("\r")) || bytes.HasPrefix(data, []byte("\n")) {
			return
		}
		var g Filter
		ends := 0
		for i := range data {
			before := g.state
			if g.Pass(data[i : i+1]); before != begin && g.state == begin {
				ends++
			}
		}
		if got, all := count(data); all && g.state == begin && got != ends {
			t.Fatalf("net/http reads %d requests, the guard saw the ends of %d, in %q", got, ends, data)
		}
	})
}

func BenchmarkPass(b *testing.B) {
	head := []byte("GET /connection/websocket HTTP/1.1\r\nHost: example.com\r\nUser-Agent: " + strings.Repeat("x", 100) +
		"\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: " + strings.Repeat("y", 200) + "\r\n\r\n")
	var g Filter
	b.ReportAllocs()
	b.SetBytes(int64(len(head)))
	for b.Loop() {
		if n, v := g.Pass(head); n != len(head) || v != Passed {
			b.Fatal(n, v)
		}
	}
}
