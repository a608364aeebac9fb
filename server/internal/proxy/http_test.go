package proxy

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gyrohq/gyro/server/internal/config"
	"github.com/gyrohq/gyro/server/internal/proxy/message"
)

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// rawBackend answers requests with text, one for each request. It returns its URL and the number of
// connections so far.
func rawBackend(t *testing.T, stays bool, answer func(n int) string) (string, *atomic.Int32) {
	l := listen(t, "127.0.0.1:0")
	var opened, requests atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			opened.Add(1)
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					q, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, q.Body)
					_, _ = io.WriteString(conn, answer(int(requests.Add(1))))
					if !stays {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), &opened
}

// What HTTP servers may send; a log line quotes nothing of it.
func TestHTTPAnswersAsBytes(t *testing.T) {
	const secret = "Set-Cookie: s=confidential\r\n"
	long := func(n int) string { return "X-Long: " + strings.Repeat("x", n) + "\r\n" }
	for name, tt := range map[string]struct{ answer, want string }{
		"closes in the head": {"HTTP/1.1 200 OK\r\n" + secret + "Content-Le", errClosed.Error()},
		"bad chunk":          {"HTTP/1.1 200 OK\r\n" + secret + "Transfer-Encoding: chunked\r\n\r\nconfidential\r\n", errNotHTTP.Error()},
		"half a chunk":       {"HTTP/1.1 200 OK\r\n" + secret + "Transfer-Encoding: chunked\r\n\r\n2\r\n{", errClosed.Error()},
		"no last chunk":      {"HTTP/1.1 200 OK\r\n" + secret + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", errClosed.Error()},
		"not HTTP":           {"SSH-2.0-confidential\r\n\r\n", errNotHTTP.Error()},
		"bad header":         {"HTTP/1.1 200 OK\r\n" + secret + "confidential\r\n\r\n", errNotHTTP.Error()},
		"too large a head":   {"HTTP/1.1 200 OK\r\n" + secret + long(maxHead) + "Content-Length: 2\r\n\r\n{}", errHead.Error()},
		"only interim":       {strings.Repeat("HTTP/1.1 103 Early Hints\r\n"+secret+"\r\n", 100), errInterim.Error()},

		"large head":      {"HTTP/1.1 200 OK\r\n" + long(maxHead/2) + "Content-Length: 2\r\n\r\n{}", ""},
		"interim answers": {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ""},
		"chunked":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nX-Trailer: x\r\n\r\n", ""},
		"until the end":   {"HTTP/1.1 200 OK\r\n\r\n{}", ""},
		"HTTP/1.0":        {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			stays := tt.want == "" && name != "until the end"
			endpoint, opened := rawBackend(t, stays, func(int) string { return tt.answer })
			p, out := open(t, RPC, settings(endpoint))
			for range 2 {
				if _, err := rpc(p); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
			}
			if n := opened.Load(); n != 2 && !stays {
				t.Errorf("the backend was asked %d times for 2 calls", n)
			}
			if strings.Contains(out.String(), "confidential") || strings.Count(out.String(), "gives no answer") != min(len(tt.want), 1) {
				t.Error(out)
			}
		})
	}
}

// A connection on which something may come that is not the answer to the next request is not used
// again, so no client gets the answer to another one.
func TestAnswerOfAnother(t *testing.T) {
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + `{"result":{"data":"of another"} }`
	for name, first := range map[string]string{
		"204 with a body": "HTTP/1.1 204 No Content\r\nContent-Length: 32\r\n\r\n",
		"304 with a body": "HTTP/1.1 304 Not Modified\r\nContent-Length: 32\r\n\r\n",
		"two answers":     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + forged,
		"closes":          "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
	} {
		t.Run(name, func(t *testing.T) {
			endpoint, opened := rawBackend(t, true, func(n int) string {
				if n == 1 {
					return first
				}
				return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
			})
			p, _ := open(t, RPC, settings(endpoint))
			_, _ = rpc(p)
			for range 3 {
				if res, err := rpc(p); err != nil || res.Result != nil {
					t.Errorf("%+v, %v", res.Result, err)
				}
			}
			if n := opened.Load(); n != 2 {
				t.Errorf("%d connections, want one for the first call and one for the others", n)
			}
		})
	}
}

// brokenConn is a connection that takes some bytes of the first write, and then no more.
type brokenConn struct {
	net.Conn
	takes int
}

func (c *brokenConn) Write([]byte) (int, error)   { return c.takes, syscall.EPIPE }
func (c *brokenConn) SetDeadline(time.Time) error { return nil }
func (c *brokenConn) Close() error                { return nil }

// A request of which nothing was written, because its connection was closed, is sent again, once.
// A request that may have been read is not sent again.
func TestRetry(t *testing.T) {
	for _, tt := range []struct {
		name  string
		idle  []int // bytes that each idle connection takes
		asked int32
		fails bool
	}{
		{name: "unsent", idle: []int{0}, asked: 1},
		{name: "unsent twice", idle: []int{0, 0}, fails: true},
		{name: "a part was sent", idle: []int{1}, fails: true},
		{name: "unsent, then a part", idle: []int{1, 0}, fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int32
			s := backend(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); fmt.Fprint(w, `{}`) })
			p, _ := open(t, RPC, settings(s.URL))
			conns := p.carrier.(*httpCarrier).conns
			for _, takes := range tt.idle { // the last one is used first
				raw := &brokenConn{takes: takes}
				c := &backendConn{Conn: raw, pending: func() bool { return false }}
				c.r = bufio.NewReader(answers{c})
				conns.put(c)
			}
			_, err := rpc(p)
			if (err != nil) != tt.fails || asked.Load() != tt.asked {
				t.Errorf("asked %d times, error %v", asked.Load(), err)
			}
			if _, err := rpc(p); err != nil || asked.Load() != tt.asked+1 {
				t.Errorf("the next call: asked %d times, error %v", asked.Load()-tt.asked, err)
			}
		})
	}
}

// gRPC metadata of clients is forwarded by grpc_metadata alone, and headers by http_headers alone.
func TestForwardByKind(t *testing.T) {
	got := make(chan http.Header, 1)
	s := backend(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; fmt.Fprint(w, `{}`) })
	c := settings(s.URL)
	c.GRPCMetadata, c.HTTPHeaders = []string{"x-meta"}, []string{"X-Head"}
	p, _ := open(t, RPC, c)
	o := settings(s.URL)
	o.GRPCMetadata, o.HTTPHeaders = []string{"x-head"}, []string{"X-Meta"}
	other, _ := open(t, RPC, o)
	header := func() http.Header { return http.Header{"X-Meta": {"m"}, "X-Head": {"h"}} }
	for _, overGRPC := range []bool{false, true} {
		from, _ := NewKeeper(8192, p, other).Keep(overGRPC, header, nil)
		if err := p.Call(t.Context(), from, new(message.RPCRequest), new(message.RPCResponse)); err != nil {
			t.Fatal(err)
		}
		if h := <-got; (h.Get("X-Meta") != "") != overGRPC || (h.Get("X-Head") == "") != overGRPC {
			t.Errorf("over gRPC %v: %v", overGRPC, h)
		}
	}
}

// BenchmarkHTTPCall asks a backend that answers at once, in the same process.
func BenchmarkHTTPCall(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for in := make([]byte, 4096); ; { // a request fits
			if _, err := conn.Read(in); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"+`{"result":{"data":{"x":1}}}`)
		}
	}()
	p, err := New(Options{Event: RPC, Name: "default", Key: "rpc.proxy", Config: settings("http://" + l.Addr().String()), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	req := &message.RPCRequest{Client: "c", Transport: "websocket", Protocol: "json", Encoding: "json", User: "u", Method: "m"}
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Call(b.Context(), nil, req, new(message.RPCResponse)); err != nil {
			b.Fatal(err)
		}
	}
}

// A request that forwards nothing is what fasthttp makes of it.
func TestHeadOfRequests(t *testing.T) {
	for name, change := range map[string]func(c *config.Proxy){
		"plain":      func(*config.Proxy) {},
		"a path":     func(c *config.Proxy) { c.Endpoint += "/a//b/../c%20d?x=1&Content-Length:%200" },
		"a password": func(c *config.Proxy) { c.Endpoint = strings.Replace(c.Endpoint, "//", "//user:password@", 1) },
		"more headers": func(c *config.Proxy) {
			c.HTTP.StaticHeaders = map[string]string{"X-Key": "Content-Length: 0", "Host": "other"}
		},
		"other content": func(c *config.Proxy) { c.HTTP.StaticHeaders = map[string]string{"Content-Type": "text/plain"} },
	} {
		t.Run(name, func(t *testing.T) {
			c := settings("http://127.0.0.1:1")
			change(c)
			p, _ := open(t, RPC, c)
			h := p.carrier.(*httpCarrier)
			for _, body := range []string{"{}", strings.Repeat("x", 12345)} {
				x, want := exchange{body: []byte(body)}, exchange{body: []byte(body)}
				if err := h.write(t.Context(), &x, nil); err != nil {
					t.Fatal(err)
				}
				if err := h.write(t.Context(), &want, new(From)); err != nil {
					t.Fatal(err)
				}
				if string(x.text) != string(want.text) {
					t.Errorf("%q\nwant %q", x.text, want.text)
				}
			}
		})
	}
}
