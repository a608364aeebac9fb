package websocket

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front/fronttest"
)

// TestHTTP2 runs the tests of extended CONNECT in a process of its own, since
// net/http reads the setting that enables it at start.
func TestHTTP2(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestExtendedConnect", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=http2xconnect=1", "GYRO_TEST_XCONNECT=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestExtendedConnect") {
		t.Errorf("%v\n%s", err, out)
	}
}

// h2Conn makes a net.Conn of the client's side of an extended CONNECT.
type h2Conn struct {
	net.Conn // nil
	in       io.ReadCloser
	out      *io.PipeWriter
	cancel   context.CancelFunc
}

func (c *h2Conn) Read(p []byte) (int, error)       { return c.in.Read(p) }
func (c *h2Conn) Write(p []byte) (int, error)      { return c.out.Write(p) }
func (c *h2Conn) SetReadDeadline(time.Time) error  { return nil }
func (c *h2Conn) SetWriteDeadline(time.Time) error { return nil }

func (c *h2Conn) Close() error {
	c.cancel()
	c.out.Close()
	return c.in.Close()
}

// h2Timeout is what the servers of HTTP/2 have for a whole request.
const h2Timeout = 10 * time.Second

// needExtendedConnect skips a test in the process in which net/http does not know extended CONNECT.
func needExtendedConnect(t *testing.T) {
	t.Helper()
	if os.Getenv("GYRO_TEST_XCONNECT") == "" {
		t.Skip("run by TestHTTP2")
	}
}

// withH2Server runs a test of a server of HTTP/2 in virtual time.
func withH2Server(t *testing.T, cfg Config, test func(t *testing.T, s *testServer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &testServer{t: t, peers: make(chan *testPeer, 10), pipes: fronttest.NewPipes()}
		s.Server = httptest.NewUnstartedServer(NewHandler(s, cfg))
		s.Listener.Close()
		s.Listener = s.pipes
		s.EnableHTTP2 = true
		s.Config.ReadTimeout, s.Config.WriteTimeout = h2Timeout, h2Timeout
		s.StartTLS()
		t.Cleanup(s.Server.Close)
		test(t, s)
	})
}

// roundTripperH2 returns a new HTTP/2 connection of net/http, unlike
// http.Transport one that takes the header field :protocol.
func (s *testServer) roundTripperH2() http.RoundTripper {
	s.t.Helper()
	tc := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err := tc.Handshake(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { tc.Close() })
	tr := &http.Transport{ForceAttemptHTTP2: true}
	_ = tr.Clone() // fills TLSNextProto
	return tr.TLSNextProto["h2"](s.Listener.Addr().String(), tc)
}

// answer is a http.Response without its body, which becomes the client's stream.
type answer struct {
	ProtoMajor, StatusCode int
	Header                 http.Header
}

func (s *testServer) connectH2(change func(*http.Request)) (*testClient, answer) {
	s.t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodConnect, s.URL+"/?format=protobuf", r)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{":protocol": {"websocket"}, "Sec-Websocket-Version": {"13"}}
	if change != nil {
		change(req)
	}
	resp, err := s.roundTripperH2().RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	nc := &h2Conn{in: resp.Body, out: w, cancel: cancel}
	s.t.Cleanup(func() {
		nc.Close()
		resp.Body.Close()
	})
	return &testClient{t: s.t, nc: nc, r: bufio.NewReader(nc)}, answer{resp.ProtoMajor, resp.StatusCode, resp.Header}
}

func TestExtendedConnect(t *testing.T) {
	needExtendedConnect(t)
	withH2Server(t, Config{Compression: true}, func(t *testing.T, s *testServer) {
		c, resp := s.connectH2(func(r *http.Request) {
			r.Header.Set("Sec-WebSocket-Protocol", "centrifuge-protobuf")
			r.Header.Set("Sec-WebSocket-Extensions", "permessage-deflate")
		})
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK ||
			resp.Header.Get("Sec-WebSocket-Protocol") != "centrifuge-protobuf" ||
			resp.Header.Get("Sec-WebSocket-Extensions") == "" || resp.Header.Get("Sec-WebSocket-Accept") != "" {
			t.Fatalf("answer %+v", resp)
		}
		p := wait.Receive(t, "a peer", s.peers)
		if p.Info.Framer.Encoding() != protocol.Protobuf {
			t.Errorf("encoding %v", p.Info.Framer.Encoding())
		}
		time.Sleep(3 * h2Timeout)
		converse(t, c, p)
	})
}

func TestExtendedConnectRefused(t *testing.T) {
	needExtendedConnect(t)
	withH2Server(t, Config{}, func(t *testing.T, s *testServer) {
		for _, tt := range []struct {
			name   string
			change func(*http.Request)
			status int
		}{
			{"version", func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") }, 400},
			{"protocol", func(r *http.Request) { r.Header[":protocol"] = []string{"webtransport"} }, 400},
			{"origin", func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") }, 403},
			{"GET", func(r *http.Request) { r.Method = "GET"; delete(r.Header, ":protocol") }, 400},
			{"POST", func(r *http.Request) { r.Method = "POST"; delete(r.Header, ":protocol") }, 405},
		} {
			c, resp := s.connectH2(tt.change)
			if resp.StatusCode != tt.status || resp.Header.Get("Sec-WebSocket-Version") != "13" {
				t.Errorf("%s: status %d, header %v", tt.name, resp.StatusCode, resp.Header)
			}
			c.nc.Close()
		}
	})
}

func TestExtendedConnectEnds(t *testing.T) {
	needExtendedConnect(t)
	for name, test := range map[string]func(c *testClient, p *testPeer){
		"violation": func(c *testClient, p *testPeer) {
			c.raw([]byte{0xF1, 0xFF})
			c.expect(closeFr(1002, "reserved bits set"))
			c.expectEOF()
			p.ClosedWith()
		},
		"client resets": func(c *testClient, p *testPeer) {
			c.nc.Close()
			p.ClosedWith()
		},
		"client ends its direction": func(c *testClient, p *testPeer) {
			c.nc.(*h2Conn).out.Close()
			p.ClosedWith()
		},
		"close by client": func(c *testClient, p *testPeer) {
			c.send(closeFr(1000, ""))
			c.expect(closeFr(1000, ""))
			c.expectEOF()
			p.ClosedWith()
		},
		"close timeout": func(c *testClient, p *testPeer) {
			p.Conn.Close(protocol.DisconnectShutdown, nil)
			c.expect(closeFr(3001, "shutdown"))
			c.expectEOF()
			p.ClosedWith()
		},
		"drop": func(_ *testClient, p *testPeer) {
			p.Conn.Close(protocol.DisconnectConnectionClosed, nil)
			p.ClosedWith()
		},
		"write timeout": func(_ *testClient, p *testPeer) {
			if err := writeUntilClosed(p.t, p, frames(testText(100000))); !errors.Is(err, protocol.DisconnectWriteError) {
				p.t.Errorf("Closed(%v)", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withH2Server(t, Config{}, func(t *testing.T, s *testServer) {
				c, _ := s.connectH2(nil)
				test(c, wait.Receive(t, "a peer", s.peers))
			})
		})
	}
}
