package front

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// FuzzHead: a request that the front gives to a route is the same request for the server of
// net/http, wherever its bytes are split.
func FuzzHead(f *testing.F) {
	ws := request("")
	for _, s := range []string{
		ws, strings.ReplaceAll(ws, "\r\n", "\n"), strings.Replace(ws, "a=b", "a=%41&b", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nA: b\r\n c\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nHost: b\r\n\r\n", 1),
		strings.Replace(ws, "gyro.test", "[::1]:80", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nOrigin: http://a\r\nA:\tb \r\nContent-Length: 0\r\n\r\n", 1),
		"GET /ws HTTP/1.1\r\n\r\n", "GET /ws\n\n", "GET /ws \n\r\n",
		strings.Replace(ws, "a=b", "", 1), strings.Replace(ws, "a=b", "??#é%", 1), strings.Replace(ws, "a=b HTTP/1.1", "a=b HTTP/1.1 HTTP/1.1", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\npragma: no-cache\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nPragma: no-cache\r\ncache-control:\r\nCache-Control: a\r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", "\r\nTrailer: a\r\nA:\r\nA: b\r\na: \xff\r\n\r\n", 1),
		strings.Replace(ws, "Host: gyro.test", "Host:\r\nHost: gyro.test", 1), strings.Replace(ws, "\r\n", "\r\r\n", 2),
		strings.Replace(ws, "Upgrade\r", "Upgrade, Close\r", 1), strings.Replace(ws, "\r\n\r\n", "\r\n \r\n\r\n", 1),
		strings.Replace(ws, "\r\n\r\n", strings.Repeat("\r\nA: b", maxFields)+"\r\n\r\n", 1),
	} {
		f.Add([]byte(s), 10)
	}
	for _, s := range []string{
		"POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
		"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", "POST /api?a HTTP/1.1\r\nHost: a\r\nContent-Length: 02\r\nTE: a\r\n\r\n",
		"POST /api HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: x close\r\n\r\n",
	} {
		f.Add([]byte(s), 30)
	}
	in := newIntake(&Listener{}, nil)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if len(data) > 16<<10 {
			return
		}
		judge := func(n, scanned int) (*route, int, matchState) { return known.judge(data[:n], scanned, 8<<10) }
		r, end, o := judge(len(data), 0)
		if cut > 0 && cut < len(data) {
			if r2, e, w := judge(cut, 0); w == partial {
				if r2, e, w = judge(len(data), cut); r2 != r || e != end || w != o {
					t.Fatalf("split at %d: %d %v, want %d %v", cut, e, w, end, o)
				}
			} else if w != o || r2 != r || e != end {
				t.Fatalf("first %d bytes: %d %v, want %d %v", cut, e, w, end, o)
			}
		}
		if o == complete {
			sameRequest(t, &in.request, r, data, end)
		}
	})
}

// FuzzFields is FuzzHead where a request is likely to be one.
func FuzzFields(f *testing.F) {
	f.Add(false, "", "Host: a\r\n", "A: b\r\n")
	f.Add(true, "?a=b", "hOST:[::1]:80 \r\n", "Pragma: no-cache\r\nA:\t\r\nA: \xff\r\n")
	f.Add(true, "?", "Host: a\n", "Connection: x, close\r\n")
	f.Add(false, "? ", "Host: a\r\nHost: b\r\n", " A: b\r\n")
	f.Add(false, "", "Host: a\r\n", "Content-Length: 2\r\n")
	f.Add(true, "", "Host: a\r\n", "Content-Length: 002\r\nX-API-Key: a\r\nx-api-key: b\r\nUpgrade:\r\n")
	var q Request
	f.Fuzz(func(t *testing.T, post bool, query, host, fields string) {
		text := "GET /ws" + query + " HTTP/1.1\r\nConnection: Upgrade\r\n" + host + "Upgrade: test\r\n" + fields + "\r\n"
		if post {
			text = "POST /api" + query + " HTTP/1.1\r\n" + host + fields + "\r\n"
		}
		data := []byte(text)
		if r, end, o := known.judge(data, 0, 16<<10); o == complete {
			sameRequest(t, &q, r, data, end)
		}
	})
}

// FuzzBody: a request with a body is complete for the front when it is complete for net/http, with the
// same body, wherever its bytes are split.
func FuzzBody(f *testing.F) {
	f.Add("Content-Length: 5\r\n", []byte("hello, world"), 40)
	f.Add("Content-Length: 05\r\nA: b\r\n", []byte("hell"), 70)
	f.Add("Content-Length: 0\r\n", []byte(""), 60)
	f.Add("content-length:\t1000 \r\n", bytes.Repeat([]byte("\r\n"), 600), 80)
	f.Add("Content-Length: 1001\r\n", bytes.Repeat([]byte("x"), 1001), 80)
	f.Add("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", []byte("0\r\n\r\n"), 80)
	in := newIntake(&Listener{onLoops: known, maxHead: 16 << 10}, nil)
	f.Fuzz(func(t *testing.T, fields string, body []byte, cut int) {
		data := append([]byte("POST /stream HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n"), body...)
		n := new(loopConn)
		r, end, o := in.examine(n, data)
		if cut > 0 && cut < len(data) {
			m := new(loopConn)
			if _, _, first := in.examine(m, data[:cut]); first == partial {
				if r2, end2, o2 := in.examine(m, data); r2 != r || end2 != end || o2 != o || o == partial && m.whole != n.whole {
					t.Fatalf("split at %d: %d %v %d, want %d %v %d", cut, end2, o2, m.whole, end, o, n.whole)
				}
			} else if first != o {
				t.Fatalf("the first %d bytes are %v, all are %v", cut, first, o)
			}
			if o == complete {
				in.examine(n, data) // parse it again
			}
		}
		if o == foreign || o == partial && n.whole == 0 {
			return
		}
		want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			t.Fatal("http.ReadRequest refuses what a route gets:", err)
		}
		got, err := io.ReadAll(want.Body)
		switch {
		case o == partial && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Fatalf("the body is incomplete, but for net/http it is %q, %v", got, err)
		case o == complete && (err != nil || string(got) != string(data[end:in.request.end(end)])):
			t.Fatalf("the body is %q, for net/http %q, %v", data[end:in.request.end(end)], got, err)
		}
	})
}

// known has one route of each kind.
var known = func() (rs routes) {
	rs.add(Route{Method: http.MethodGet, Path: "/ws", Upgrade: "test", Take: func(*Arrival) {}})
	rs.add(Route{Method: http.MethodPost, Path: "/api"})
	rs.add(Route{Method: http.MethodPost, Path: "/stream", MaxBody: 1000, Take: func(*Arrival) {}})
	return rs
}()

// sameRequest compares how the front and net/http read the head data[:end], if it is that of a request
// for r.
func sameRequest(t *testing.T, q *Request, r *route, data []byte, end int) {
	t.Helper()
	head := data[:end]
	if !q.parse(string(head)) || !r.wants(q) {
		return
	}
	sent := append(bytes.Clone(head), make([]byte, max(q.length, 0))...)
	want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
	if err != nil {
		t.Fatal("http.ReadRequest refuses what a route gets:", err)
	}
	got := FromHTTP(want)
	if want.URL.Path != r.Path || got.Method != q.Method || got.Path != q.Path || got.Query != q.Query || got.Host != q.Host {
		t.Fatalf("got %+v, want %+v", q, got)
	}
	if want.ContentLength != int64(max(q.length, 0)) || want.Close || want.TransferEncoding != nil || want.Proto != "HTTP/1.1" {
		t.Fatalf("got %+v, want %+v", q, want)
	}
	served := asked(sent)
	if served == nil {
		t.Fatal("net/http refuses what a route gets")
	}
	if !reflect.DeepEqual(want.Header, served.Header) || want.Host != served.Host || want.RequestURI != served.RequestURI {
		t.Fatalf("ReadRequest says %+v, the server %+v", want, served)
	}
	sameFields(t, q, want.Header)
}

// sameFields compares what the methods of q return for the fields with what net/http has read.
func sameFields(t *testing.T, q *Request, want http.Header) {
	t.Helper()
	want = want.Clone()
	want.Del("Content-Length")
	if got := q.Header()(); !reflect.DeepEqual(got, want) {
		t.Fatalf("later: %q, want %q", got, want)
	}
	for name, values := range want {
		if name == "Cache-Control" { // net/http may have made it of Pragma
			continue
		}
		for _, name := range []string{name, strings.ToUpper(name)} {
			if got := q.Values(name); !slices.Equal(got, values) || q.Get(name) != values[0] {
				t.Fatalf("%s: %q, want %q", name, got, values)
			}
		}
	}
	if q.Get("No-Such") != want.Get("No-Such") || len(q.Values("No-Such")) != len(want.Values("No-Such")) {
		t.Fatalf("there is a field that nobody sent")
	}
}

// asked returns the first request that a handler of net/http gets for the bytes; nil: none.
func asked(sent []byte) (got *http.Request) {
	var wg sync.WaitGroup
	ours, theirs := net.Pipe()
	ln := &oneConn{conn: theirs, done: make(chan struct{})}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got == nil {
			got = r
		}
		w.Header().Set("Connection", "close")
	})}
	s.SetKeepAlivesEnabled(false)
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(ln.done)
		}
	}
	wg.Go(func() { _ = s.Serve(ln) })
	go func() {
		_, _ = ours.Write(sent)
		ours.Close()
	}()
	_, _ = io.Copy(io.Discard, ours)
	wg.Wait()
	return got
}

// oneConn is a listener for one connection.
type oneConn struct {
	conn net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
