package front

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// What a route answers has its status, its own fields, and a body unless the status has none.
func TestAnswerFields(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[byte]int{'a': 200, 'b': 204, 'c': 404, 'd': 304}
	s := &http.Server{Handler: http.NotFoundHandler()}
	l := Listen(ln, s, nil, Route{
		Method: http.MethodPost, Path: "/x", ContentType: "a/b",
		Answer: func(_ context.Context, _ *Request, _ any, body, out []byte) (int, []byte) {
			return statuses[body[0]], append(out, "body"...)
		},
		Fields: func(q *Request, head []byte) []byte {
			if v := q.Get("Y"); v != "" {
				head = append(append(append(head, "X-Y: "...), v...), "\r\n"...)
			}
			return head
		},
	})
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request := func(y, body string) string {
		return "POST /x HTTP/1.1\r\nHost: h\r\n" + y + "Content-Length: 1\r\n\r\n" + body
	}
	long := strings.Repeat("y", 10_000)
	if _, err := io.WriteString(c, request("", "a")+request("Y: 1\r\n", "b")+request("Y: "+long+"\r\n", "a")+request("", "c")+request("Y: 2\r\n", "d")+
		"POST /y HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw[:strings.LastIndex(string(raw), "HTTP/1.1 404")]) // without that of net/http
	for _, want := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 4\r\nDate: _\r\n\r\nbody",
		"HTTP/1.1 204 No Content\r\nDate: _\r\nX-Y: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 4\r\nDate: _\r\nX-Y: " + long + "\r\n\r\nbody",
		"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nContent-Length: 10\r\nDate: _\r\n\r\nNot Found\n",
		"HTTP/1.1 304 Not Modified\r\nDate: _\r\nX-Y: 2\r\n\r\n",
	} {
		before, after, _ := strings.Cut(want, "_")
		rest, ok := strings.CutPrefix(got, before)
		if !ok || len(rest) < len(http.TimeFormat) || !strings.HasPrefix(rest[len(http.TimeFormat):], after) {
			t.Fatalf("got %.300q, want %.300q", got, want)
		}
		got = rest[len(http.TimeFormat)+len(after):]
	}
	if got != "" {
		t.Errorf("%q is left", got)
	}
}
