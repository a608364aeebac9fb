package httpstream

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
)

// TestStream: a stream of each kind in each way, from its head to the end of its body.
func TestStream(t *testing.T) {
	each(t, func(t *testing.T, k Kind, w way) {
		s := newServer(t, k, w, Config{}, nil)
		r, resp, p := s.connect()
		checkHead(t, k, w, resp)
		pre, post := "", "\n"
		if kinds[k].events() {
			expect(t, r, "\r\n")
			pre, post = "data: ", "\n\n"
		}
		checkInfo(t, k, w, p)
		p.write("{}")
		expect(t, r, pre+"{}"+post)
		p.write("{\"a\":1}\n{\"é\":2}")
		expect(t, r, pre+"{\"a\":1}"+post+pre+"{\"é\":2}"+post)
		last := p.frame(`{"push":{}}`)
		p.Conn.Close(protocol.DisconnectShutdown, [][]byte{last})
		expect(t, r, pre+`{"push":{}}`+post)
		expectEnd(t, r)
		resp.Body.Close()
		if err := wait.Receive(t, "Closed", p.Ended); !errors.Is(err, protocol.DisconnectShutdown) {
			t.Errorf("closed: %v", err)
		}
	})
}

func checkHead(t *testing.T, k Kind, w way, resp *answer) {
	t.Helper()
	want := map[string]string{
		"X-Accel-Buffering": "no", "Cache-Control": "private, no-cache, no-store, must-revalidate, max-age=0",
		"Pragma": "no-cache", "Expire": "0", "Content-Type": "", "Content-Length": "",
		"Access-Control-Allow-Origin": "", "Vary": "",
	}
	if kinds[k].events() {
		want["Content-Type"] = "text/event-stream; charset=utf-8"
	}
	if w != byHTTP2 && (len(resp.TransferEncoding) != 1 || resp.TransferEncoding[0] != "chunked" || !resp.Close) {
		t.Errorf("Transfer-Encoding: %q; the connection ends: %v", resp.TransferEncoding, resp.Close)
	}
	for name, value := range want {
		if got := resp.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err != nil || time.Since(date) > time.Minute {
		t.Errorf("Date: %v, %v", date, err)
	}
	if (resp.ProtoMajor == 2) != (w == byHTTP2) {
		t.Errorf("the answer came over %s", resp.Proto)
	}
}

func checkInfo(t *testing.T, k Kind, w way, p *testPeer) {
	t.Helper()
	if p.Info.Name != kinds[k].name || p.Info.Mode != kinds[k].mode || !p.Info.DisconnectPush || p.Info.RemoteAddr == "" ||
		p.Info.Header().Get("User-Agent") == "" || p.Context.Value(http.ServerContextKey) == nil || p.Context.Done() != nil {
		t.Errorf("%+v", p.Info)
	}
	if _, onLoop := p.Inside.(*loopConn); onLoop != (w == byHijack || w == byRoute) {
		t.Errorf("the connection is a %T", p.Inside)
	}
	if kinds[k].mode == transport.OneWay {
		if p.Info.Connect == nil || string(p.Info.Connect.Data) != `{"a":"é"}` {
			t.Errorf("connect request: %+v", p.Info.Connect)
		}
		return
	}
	if got := wait.Receive(t, "the commands", p.Messages); got != `{"id":1,"connect":{}}` || p.Info.Connect != nil {
		t.Errorf("commands: %q", got)
	}
}

// TestProtobuf: a request for a binary stream gets one, and others do not.
func TestProtobuf(t *testing.T) {
	for w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			s := newServer(t, HTTPStream, w, Config{}, nil)
			r, _ := http.NewRequest(http.MethodPost, s.URL+s.path(), strings.NewReader("\x02\x08\x01"))
			r.Header.Set("Content-Type", "application/octet-stream")
			resp := s.open(r)
			p := wait.Receive(t, "a peer", s.peers)
			if got := wait.Receive(t, "the commands", p.Messages); got != "\x02\x08\x01" || p.Info.Framer.Encoding() != protocol.Protobuf {
				t.Errorf("%q, %v", got, p.Info.Framer.Encoding())
			}
			p.write("\x00\x02ab")
			expect(t, resp.Body, "\x00\x02ab")
			p.Conn.Close(protocol.DisconnectShutdown, nil)
			expectEnd(t, resp.Body)
		})
	}
	s := newServer(t, UniHTTPStream, byGoroutines, Config{}, nil)
	r := s.usual()
	r.Header.Set("Content-Type", "application/octet-stream")
	s.open(r)
	if p := wait.Receive(t, "a peer", s.peers); p.Info.Framer.Encoding() != protocol.JSON {
		t.Error("a one-way stream is binary")
	}
}

// TestClientLeaves: the peer is told, and nothing is left.
func TestClientLeaves(t *testing.T) {
	each(t, func(t *testing.T, k Kind, w way) {
		s := newServer(t, k, w, Config{}, nil)
		_, resp, p := s.connect()
		resp.Body.Close()
		if err := wait.Receive(t, "Closed", p.Ended); err == nil || errors.Is(err, protocol.DisconnectWriteError) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestDropped: with a lost connection as the reason, and for a slow client, no more comes than what
// was written, and in the first case not even the end of the body.
func TestDropped(t *testing.T) {
	each(t, func(t *testing.T, k Kind, w way) {
		s := newServer(t, k, w, Config{}, nil)
		r, resp, p := s.connect()
		if kinds[k].events() {
			expect(t, r, "\r\n")
		}
		p.Conn.Close(protocol.DisconnectConnectionClosed, nil)
		rest, err := io.ReadAll(r)
		if len(rest) > 0 || err == nil && w != byHTTP2 {
			t.Errorf("got %q, %v", rest, err)
		}
		resp.Body.Close()
		if err := wait.Receive(t, "Closed", p.Ended); !errors.Is(err, protocol.DisconnectConnectionClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestNotAccepted: an acceptor that takes nobody has its say, in a stream of one message.
func TestNotAccepted(t *testing.T) {
	each(t, func(t *testing.T, k Kind, w way) {
		s := newServer(t, k, w, Config{}, func(s *testServer) {
			s.fail = func(*testPeer) error { return protocol.DisconnectShutdown }
		})
		resp := s.open(s.usual())
		body, err := io.ReadAll(resp.Body)
		want := `{"disconnect":{"code":3001,"reason":"shutdown"}}`
		if kinds[k].mode != transport.OneWay {
			want = `{"push":` + want + `}`
		}
		if kinds[k].events() {
			want = "\r\ndata: " + want + "\n"
		}
		if resp.StatusCode != http.StatusOK || string(body) != want+"\n" || err != nil {
			t.Errorf("status %d, %q, %v, want %q", resp.StatusCode, body, err, want)
		}
	})
}

// TestStale: after an error for the connect command the stream goes on, until the client leaves or
// its time is over.
func TestStale(t *testing.T) {
	each(t, func(t *testing.T, k Kind, w way) {
		if kinds[k].mode == transport.OneWay {
			t.Skip("one-way clients get a disconnect")
		}
		s := newServer(t, k, w, Config{StaleTimeout: 50 * time.Millisecond}, nil)
		r, _, p := s.connect()
		p.Conn.Close(protocol.Disconnect{}, [][]byte{p.frame(`{"id":1,"error":{}}`)})
		got, err := io.ReadAll(r)
		want := "{\"id\":1,\"error\":{}}\n{\"push\":{\"disconnect\":{\"code\":3502,\"reason\":\"stale\"}}}\n"
		if kinds[k].events() {
			want = "\r\ndata: " + strings.ReplaceAll(strings.TrimSpace(want), "\n", "\n\ndata: ") + "\n\n"
		}
		if string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	})
	s := newServer(t, SSE, byGoroutines, Config{StaleTimeout: time.Hour}, nil)
	_, resp, p := s.connect()
	p.Conn.Close(protocol.Disconnect{}, nil)
	resp.Body.Close()
	if err := wait.Receive(t, "Closed", p.Ended); !errors.Is(err, protocol.Disconnect{}) {
		t.Errorf("closed: %v", err)
	}
}

// TestNeverReading: a client that does not read is given up, and the server keeps little for it.
func TestNeverReading(t *testing.T) {
	for w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			// HTTP/2 resets streams also for a deadline that was cleared a moment ago, so the
			// timeout is longer than any write takes.
			s := newServer(t, UniSSE, w, Config{WriteTimeout: 2 * time.Second}, nil)
			_, _, p := s.connect()
			taken := writeUntilClosed(p, p.frame(strings.Repeat("x", 4<<10)))
			if err := wait.Receive(t, "Closed", p.Ended); !errors.Is(err, protocol.DisconnectWriteError) {
				t.Errorf("closed: %v", err)
			}
			if limit := 32 << 20; taken > limit { // the kernel's buffers, and those of HTTP/2
				t.Errorf("the server took %d bytes", taken)
			}
		})
	}
}

// writeUntilClosed writes a frame again and again. It returns the number of bytes that were taken.
func writeUntilClosed(p *testPeer, frame []byte) (taken int) {
	for {
		n, err := p.Conn.Write([][]byte{frame})
		taken += n
		if err != nil {
			return taken
		}
		if n > 0 {
			continue
		}
		select {
		case <-p.Ready:
		case err := <-p.Ended:
			p.Ended <- err
			return taken
		}
	}
}

// TestSurplus: what a client sends behind its request is ignored, up to a limit.
func TestSurplus(t *testing.T) {
	for _, w := range []way{byGoroutines, byHijack, byRoute} {
		t.Run(w.String(), func(t *testing.T) {
			s := newServer(t, UniSSE, w, Config{}, nil)
			nc := s.dial()
			_, _ = io.WriteString(nc, "GET /connection/uni_sse HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n")
			p := wait.Receive(t, "a peer", s.peers)
			_, _ = io.WriteString(nc, strings.Repeat("x", 1000))
			p.write("{}")
			resp := head(t, nc)
			expect(t, resp.Body, "\r\ndata: {}\n\n")
			_, _ = io.WriteString(nc, strings.Repeat("x", 64<<10))
			if err := wait.Receive(t, "Closed", p.Ended); !errors.Is(err, protocol.DisconnectBadRequest) {
				t.Errorf("closed: %v", err)
			}
			expect(t, resp.Body, "data: {\"disconnect\":{\"code\":3501,\"reason\":\"bad request\"}}\n\n")
			expectEnd(t, resp.Body)
		})
	}
}

// TestHalfClosed: a client that ends its own direction has gone, as for net/http.
func TestHalfClosed(t *testing.T) {
	for _, w := range []way{byGoroutines, byHijack, byRoute} {
		t.Run(w.String(), func(t *testing.T) {
			s := newServer(t, UniSSE, w, Config{}, nil)
			nc := s.dial()
			_, _ = io.WriteString(nc, "GET /connection/uni_sse HTTP/1.1\r\nHost: a\r\n\r\n")
			p := wait.Receive(t, "a peer", s.peers)
			_ = nc.(*net.TCPConn).CloseWrite()
			wait.Receive(t, "Closed", p.Ended)
		})
	}
}
