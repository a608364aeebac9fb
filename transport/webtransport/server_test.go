package webtransport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/httpstream"
	"github.com/gyrohq/gyro/transport/webtransport/internal/wttest"
)

func TestRequests(t *testing.T) {
	s := newServer(t, Config{}, nil, func(h *http.Server) { h.MaxHeaderBytes = 4096 })
	s.mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(w, r.Body); err != nil || n != r.ContentLength {
			t.Error(n, err)
		}
	})
	s.mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("oops") })
	client, conn := s.http()
	body := strings.Repeat("x", 3<<20) // more than the windows
	post := must[*http.Request](t)(http.NewRequest(http.MethodPost, s.url("/echo"), strings.NewReader(body)))
	if got := do(t, client, post); got != "HTTP/3.0 200 "+body {
		t.Errorf("%.50s, %d bytes", got, len(got))
	}
	if res, err := client.Get(s.url("/panic")); err == nil {
		res.Body.Close()
		t.Error(res.Status)
	}
	if log := s.log.String(); !strings.Contains(log, ": oops\n") || !strings.Contains(log, "http: panic serving 127.0.0.1:") || !strings.Contains(log, "server_test.go") {
		t.Errorf("log: %s", log)
	}
	req := must[*http.Request](t)(http.NewRequest(http.MethodGet, s.url("/wt"), nil))
	req.Header.Set("X-Long", strings.Repeat("x", 5000))
	if got := do(t, client, req); got != "HTTP/3.0 431 " {
		t.Error(got)
	}
	if got := get(t, client, s.url("/nothing")); got != "HTTP/3.0 404 404 page not found\n" { // by the same connection
		t.Error(got)
	}
	if err := conn().Context().Err(); err != nil {
		t.Error("the connection ended:", err)
	}
}

// TestAdvertise: the answers over TCP name the port by which the client came.
func TestAdvertise(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	h := s.Advertise(http.NotFoundHandler())
	routes := []front.Route{{Path: "/a"}, {Path: "/b"}}
	s.AdvertiseRoutes(routes)
	for host, want := range map[string]string{
		"example.com": "443", "example.com:8443": "8443", "[::1]:8000": "8000", "[::1]": "443", "a:http": "443", "a:99999": "443", "": "443",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Host: host})
		if got := w.Header().Get("Alt-Svc"); got != `h3=":`+want+`"; ma=86400` || w.Code != 404 {
			t.Errorf("%q: %s, %d", host, got, w.Code)
		}
		for _, r := range routes {
			if got := string(r.Advertise(&front.Request{Host: host}, []byte("head "))); got != `head Alt-Svc: h3=":`+want+`"; ma=86400`+"\r\n" {
				t.Errorf("%q: a route says %q", host, got)
			}
		}
	}
}

// TestNoEarlyData: a client that comes back may resume its TLS session, but what it sends before
// the handshake is complete could come from somebody who recorded it.
func TestNoEarlyData(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	cfg := clientTLS()
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	var resumed bool
	for range 2 {
		var conn *quic.Conn
		tr := &http3.Transport{TLSClientConfig: cfg, Dial: func(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (c *quic.Conn, err error) {
			conn, err = quic.DialAddrEarly(ctx, addr, t, q)
			return conn, err
		}}
		client := &http.Client{Transport: tr, Timeout: patience}
		if got := get(t, client, s.url("/nothing")); !strings.HasPrefix(got, "HTTP/3.0 404") {
			t.Error(got)
		}
		state := conn.ConnectionState()
		if resumed = state.TLS.DidResume; state.Used0RTT {
			t.Error("the server took early data")
		}
		tr.Close()
	}
	if !resumed {
		t.Error("the session was not resumed")
	}
}

// TestNewCertificate: a configuration that changes while the server runs holds for new connections.
func TestNewCertificate(t *testing.T) {
	var current atomic.Pointer[tls.Config]
	first, second := wttest.SelfSigned(1), wttest.SelfSigned(2)
	current.Store(first)
	s := newServer(t, Config{}, nil, func(h *http.Server) {
		h.TLSConfig = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.Load(), nil }}
	})
	serial := func(c *quic.Conn) int64 { return c.ConnectionState().TLS.PeerCertificates[0].SerialNumber.Int64() }
	old, oldConn := s.http()
	get(t, old, s.url("/nothing"))
	current.Store(second)
	fresh, freshConn := s.http()
	get(t, fresh, s.url("/nothing"))
	if got := get(t, old, s.url("/nothing")); !strings.HasPrefix(got, "HTTP/3.0 404") {
		t.Error(got)
	}
	if a, b := serial(oldConn()), serial(freshConn()); a != 1 || b != 2 {
		t.Errorf("certificates %d and %d", a, b)
	}
}

// TestSilence: what is not a whole request does not keep a connection.
func TestSilence(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, func(h *http.Server) { h.IdleTimeout = 10 * time.Second })
		conns := map[string]*quic.Conn{}
		for name, sent := range map[string][]byte{
			"nothing":                nil,
			"half a head":            {1, 50, 'x'},
			"half a type":            {0x40},
			"a stream of no session": {0x40, 0x41, 0x40, 0x64, 'x'},
		} {
			cfg := clientQUIC()
			cfg.KeepAlivePeriod = time.Second
			conns[name] = must[*quic.Conn](t)(s.dialQUIC(t.Context(), cfg, clientTLS()))
			if sent == nil {
				continue
			}
			if str, err := conns[name].OpenStream(); err == nil {
				_, _ = str.Write(sent)
			}
		}
		for name, c := range conns {
			wait.Receive(t, "end of the connection with "+name, c.Context().Done())
			var end *quic.ApplicationError
			if err := context.Cause(c.Context()); !errors.As(err, &end) || !end.Remote || end.ErrorCode != quic.ApplicationErrorCode(http3.ErrCodeNoError) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestIdleConnections: connections without a request are bounded, and those with one are not counted.
func TestIdleConnections(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, func(h *http.Server) { h.IdleTimeout = time.Hour })
		s.mu.Lock()
		s.maxIdle = 2
		s.mu.Unlock()
		busy := s.dial("", nil).open()
		busy.write("hello\n")
		p := wait.Receive(t, "a peer", s.peers)
		p.Message()
		var conns []*quic.Conn
		for range 5 {
			cfg := clientQUIC()
			cfg.KeepAlivePeriod = time.Second
			conns = append(conns, must[*quic.Conn](t)(s.dialQUIC(t.Context(), cfg, clientTLS())))
			synctest.Wait()
		}
		for _, c := range conns[:3] {
			wait.Receive(t, "end of the connection", c.Context().Done())
		}
		for _, c := range conns[3:] {
			if err := c.Context().Err(); err != nil {
				t.Error(err)
			}
		}
		busy.write("still there\n")
		p.Message()
	})
}

// firstOnly sends the first packet alone.
type firstOnly struct {
	net.PacketConn
	sent atomic.Bool
}

func (c *firstOnly) WriteTo(p []byte, to net.Addr) (int, error) {
	if c.sent.Swap(true) {
		return len(p), nil
	}
	return c.PacketConn.WriteTo(p, to)
}

// TestUnfinishedHandshakes: connections whose first message does not arrive as a whole are bounded, and end.
func TestUnfinishedHandshakes(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, nil)
		s.mu.Lock()
		s.maxUnfinished = 2
		s.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		var dials sync.WaitGroup
		for range 2 {
			qt := &quic.Transport{Conn: &firstOnly{PacketConn: net.endpoint(t)}}
			t.Cleanup(func() { qt.Close(); qt.Conn.Close() })
			dials.Go(func() {
				if _, err := qt.Dial(ctx, s.Addr(), clientTLS(), clientQUIC()); err == nil {
					t.Error("a handshake without its second packet was finished")
				}
			})
		}
		time.Sleep(time.Second)
		var refused *quic.TransportError
		if _, err := s.dialQUIC(t.Context(), clientQUIC(), clientTLS()); !errors.As(err, &refused) || refused.ErrorCode != quic.ConnectionRefused {
			t.Errorf("beside too many: %v", err)
		}
		cancel()
		dials.Wait()
		time.Sleep(time.Minute)
		for range 3 {
			must[*quic.Conn](t)(s.dialQUIC(t.Context(), clientQUIC(), clientTLS()))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.unfinished != 0 {
			t.Errorf("%d handshakes are counted as unfinished", s.unfinished)
		}
	})
}

// TestLateConnection: a connection that is accepted while the server shuts down does not keep it waiting.
func TestLateConnection(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, func(h *http.Server) { h.IdleTimeout = time.Hour })
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		c := must[*quic.Conn](t)(s.dialQUIC(t.Context(), clientQUIC(), clientTLS()))
		wait.Receive(t, "end of the connection", c.Context().Done())
	})
}

// TestBusy: a session keeps its connection, and has no deadlines.
func TestBusy(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		const idle = 10 * time.Second
		s := net.newServer(t, Config{}, nil, func(h *http.Server) { h.IdleTimeout, h.ReadTimeout, h.WriteTimeout = idle, idle/4, idle })
		c := s.dial("", nil).open()
		c.write("hello\n")
		p := wait.Receive(t, "a peer", s.peers)
		p.Message()
		// Another connection goes through all timeouts meanwhile.
		s.mux.HandleFunc("/long", func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("end of the body:", err)
			}
		})
		client, conn := s.http()
		body, w := io.Pipe()
		defer w.Close()
		if got := do(t, client, must[*http.Request](t)(http.NewRequest(http.MethodPost, s.url("/long"), body))); !strings.HasPrefix(got, "HTTP/3.0 200") {
			t.Error(got)
		}
		wait.Receive(t, "end of the other connection", conn().Context().Done())
		c.write("still there\n")
		if got := p.Message(); got != "still there\n" {
			t.Error(got)
		}
		must[int](t)(p.Conn.Write([][]byte{[]byte("{}\n")}))
		if got := must[string](t)(c.frame()); got != "{}\n" {
			t.Error(got)
		}
	})
}

// TestStreams: HTTP streams of the library live over HTTP/3 as long as they do over HTTP/2.
func TestStreams(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		node := newNode(t, nil)
		const timeout = time.Second
		s := net.newServer(t, Config{}, nil, func(h *http.Server) {
			h.ReadTimeout, h.WriteTimeout, h.IdleTimeout = timeout, timeout, timeout
		})
		s.mux.Handle("/sse", httpstream.NewHandler(httpstream.SSE, node, httpstream.Config{}))
		client, _ := s.http()
		res, err := client.Get(s.url("/sse?cf_connect=" + url.QueryEscape(`{"id":1,"connect":{}}`)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		r := bufio.NewReader(res.Body)
		next := func() string {
			for {
				text := must[string](t)(r.ReadString('\n'))
				if text = strings.TrimSpace(text); text != "" {
					return text
				}
			}
		}
		if got := next(); res.Proto != "HTTP/3.0" || !strings.HasPrefix(got, `data: {"id":1,"connect":{`) {
			t.Fatalf("%s: %s", res.Proto, got)
		}
		time.Sleep(2 * timeout)
		if err := node.Users().Subscribe(t.Context(), gyro.Target{User: "u"}, "news", nil); err != nil {
			t.Fatal(err)
		}
		must[gyro.PublishResult](t)(node.Publish(t.Context(), "news", []byte(`"hello"`), nil))
		for got := ""; got != `data: {"push":{"channel":"news","pub":{"data":"hello"}}}`; {
			got = next()
		}
		if err := node.Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != `data: {"push":{"disconnect":{"code":3503,"reason":"force disconnect"}}}` {
			t.Error(got)
		}
		if rest, err := io.ReadAll(r); err != nil || strings.TrimSpace(string(rest)) != "" {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// TestShutdown: requests under way are served, clients told to leave, and new requests sent elsewhere.
func TestShutdown(t *testing.T) {
	node := newNode(t, nil)
	s := newServer(t, Config{}, node, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "done")
	})
	c := s.dial("", nil).connect("news")
	conn := must[*quic.Conn](t)(s.dialQUIC(t.Context(), clientQUIC(), clientTLS()))
	client := &http.Client{Transport: (&http3.Transport{}).NewClientConn(conn), Timeout: patience}
	answer := make(chan string, 1)
	go func() {
		res, err := client.Get(s.url("/long"))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		answer <- string(text)
	}()
	wait.Receive(t, "a request", entered)
	idle, idleConn := s.http()
	get(t, idle, s.url("/nothing"))
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(t.Context()) }()
	wait.Receive(t, "end of the idle connection", idleConn().Context().Done())
	res, err := client.Get(s.url("/nothing"))
	if err == nil {
		res.Body.Close()
	}
	var h3 *http3.Error
	if !errors.As(err, &h3) || h3.ErrorCode != http3.ErrCodeRequestRejected {
		t.Errorf("request during the shutdown: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- node.Shutdown(t.Context()) }()
	c.wantEnd(protocol.DisconnectShutdown)
	if err := wait.Receive(t, "end of the node", ended); err != nil {
		t.Error(err)
	}
	close(leave)
	if got := wait.Receive(t, "an answer", answer); got != "done" {
		t.Error(got)
	}
	if err := wait.Receive(t, "end of Shutdown", down); err != nil {
		t.Error(err)
	}
	if _, err := quic.DialAddr(t.Context(), s.Addr().String(), clientTLS(), &quic.Config{HandshakeIdleTimeout: 50 * time.Millisecond}); err == nil {
		t.Error("there is still a server")
	}
}

// TestShutdownCutsOff: what does not end in time is ended.
func TestShutdownCutsOff(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, nil)
		c := s.dial("", nil).open()
		c.write("hello\n")
		p := wait.Receive(t, "a peer", s.peers)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		wantClosed(t, p, nil)
		wait.Receive(t, "end of the session", c.session.Context().Done())
	})
}

// panics is an acceptor.
type panics struct{}

func (panics) Accept(context.Context, transport.Conn, transport.Info) (transport.Peer, error) {
	panic("oops")
}

// TestAcceptorPanics: a panic while a session is accepted ends it alone.
func TestAcceptorPanics(t *testing.T) {
	s := newServer(t, Config{}, panics{}, nil)
	for range 2 {
		s.dial("", nil).wantSession(protocol.Disconnect{})
	}
	if log := s.log.String(); !strings.Contains(log, "oops") {
		t.Errorf("log: %s", log)
	}
}

// TestSmallBuffer: the log tells what to change if the system allows small buffers only.
func TestSmallBuffer(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	plain := must[*net.UDPConn](t)(net.ListenUDP("udp", nil))
	defer plain.Close()
	if err := plain.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	(&Server{of: s.of, conn: plain}).warnOfBuffer()
	if log := s.log.String(); !strings.Contains(log, "http3: UDP receive buffer") || !strings.Contains(log, "net.core.rmem_max") {
		t.Errorf("log: %s", log)
	}
}

func TestListenNeedsTLS(t *testing.T) {
	if _, err := Listen(nil, &http.Server{}); err == nil || !strings.Contains(err.Error(), "TLSConfig") {
		t.Error(err)
	}
}
