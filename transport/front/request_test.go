package front

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// usual is a request as browsers send it.
var usual = request("User-Agent: bench\r\nPragma: no-cache\r\nCache-Control: no-cache\r\nOrigin: http://gyro.test\r\n" +
	"Sec-WebSocket-Version: 13\r\nAccept-Encoding: gzip, deflate\r\nAccept-Language: en\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
	"Sec-WebSocket-Protocol: centrifuge-json\r\n")

// TestParseAllocations: reading a request, and asking for its fields, leaves no garbage.
func TestParseAllocations(t *testing.T) {
	var q Request
	if n := testing.AllocsPerRun(100, func() {
		if !q.parse(usual) || q.Get("origin") == "" || len(q.Values("Accept-Language")) != 1 {
			t.Fatal("refused")
		}
	}); n > 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

// TestReset: a request that was answered keeps nothing alive.
func TestReset(t *testing.T) {
	var q Request
	q.parse(usual)
	q.reset()
	for _, v := range q.values[:cap(q.values)] {
		if v != "" {
			t.Errorf("left: %q", v)
		}
	}
	if q.head != "" || q.Path != "" || q.Query != "" || q.Host != "" {
		t.Errorf("left: %+v", q)
	}
}

// TestAgain: a head counts as that of the request before only if at most its Content-Length differs.
func TestAgain(t *testing.T) {
	head := "POST /api HTTP/1.1\r\nHost: a\r\nX-A: 12\r\nContent-Length: 107\r\nX-B: 3\r\n\r\n"
	digits := strings.Index(head, "107")
	for range 20_000 {
		var q, fresh Request
		if !q.parse(head) {
			t.Fatal("refused")
		}
		data := []byte(head + "body")
		at := rand.IntN(len(head))
		if rand.IntN(2) == 0 {
			at = digits + rand.IntN(3)
		}
		data[at] = "0123456789 \n:x+"[rand.IntN(15)]
		same := string(data[:len(head)]) == head
		number := at >= digits && at < digits+3 && '0' <= data[at] && data[at] <= '9'
		if got := q.again(data); got != (same || number) {
			t.Fatalf("%q: %v", data, got)
		} else if got && (!fresh.parse(string(data[:len(head)])) || fresh.length != q.length) {
			t.Fatalf("%q: length %d, want %d", data, q.length, fresh.length)
		}
		if q.again(data[:len(head)-1]) {
			t.Fatal("an incomplete head is the same")
		}
	}
}

// TestOddPaths: a path that net/http reads in a way of its own is left to it.
func TestOddPaths(t *testing.T) {
	for path, want := range map[string]bool{"/": true, "/a/b-c.d": true, "//a": true, "/%41": false, "/a?b": false, "": false, "*": false, "/a\x01": false} {
		if got := plainPath(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

// BenchmarkRequest finds the route of a request and reads its head, without a socket.
func BenchmarkRequest(b *testing.B) {
	head := []byte(usual)
	in := newIntake(&Listener{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		_, end, _ := known.judge(head, 0, 1<<16)
		if !in.request.parse(string(head[:end])) {
			b.Fatal("refused")
		}
	}
}
