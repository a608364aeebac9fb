package websocket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/front/fronttest"
	"github.com/gyrohq/gyro/transport/internal/driver"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
	"github.com/gyrohq/gyro/transport/internal/peertest"
	"github.com/gyrohq/gyro/transport/websocket/internal/endpoint"
)

// onLoops: servers' connections live on a loop, not on goroutines; direct: they get
// there by Handler.Route, without net/http; secure: so they do over TLS, in some of the tests.
var onLoops, direct, secure bool

// overTLS are the tests that run over TLS, too.
const overTLS = "^(TestConversation|TestEarly.*|TestViolationsOnTheWire|TestCompression|TestAcceptError|TestUseWhileAccepting|TestPause|TestPingsInARow|TestConcurrentUse|TestHandshake.*|TestUpgradeAfterHandOver|TestRouteContext)$"

// anyWay are the tests that know no difference between the ways. They run once.
const anyWay = "^(TestTLS|TestFixtures|TestHTTP2|TestExtendedConnect.*|TestNoHijacker|TestSlowHandshake|TestServerTimeouts|TestUnixSocket|" +
	"TestAnswers|TestFramer|TestFramerDoesNotJoin|TestDictionary.*|TestLoopConnSize)$"

// TestMain runs the tests for both drivers and all ways to them.
func TestMain(m *testing.M) {
	code := m.Run()
	if skip := flag.Lookup("test.skip"); skip.Value.String() == "" {
		_ = flag.Set(skip.Name, anyWay)
	}
	onLoops = true
	code = max(code, m.Run())
	direct = true
	code = max(code, m.Run())
	if run := flag.Lookup("test.run"); run.Value.String() == "" {
		secure = true
		_ = flag.Set(run.Name, overTLS)
		code = max(code, m.Run())
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The connections of a Handler, on a loop and with goroutines.
type (
	loopConn   = driver.LoopConn[endpoint.Endpoint, *endpoint.Endpoint]
	streamConn = driver.StreamConn[endpoint.Endpoint, *endpoint.Endpoint]
)

// patience bounds every wait of a test; none takes anywhere near as long.
const patience = wait.Limit

type frame = frametest.Frame

var (
	text    = frametest.Text
	binFr   = frametest.Binary
	closeFr = frametest.Close
	masked  = frametest.Masked
)

// testClient is a WebSocket client that can be as wrong as a test wants.
type testClient struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

const testKey = "dGhlIHNhbXBsZSBub25jZQ=="

// request is a correct handshake; fields of header replace or extend it.
func request(host, target string, header http.Header) string {
	h := http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {testKey},
	}
	for k, v := range header {
		h[k] = v
	}
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n", target, host)
	_ = h.Write(&b)
	b.WriteString("\r\n")
	return b.String()
}

// newClient shakes hands over nc and sends early along with the request. It
// returns the header of the answer as well.
func newClient(t testing.TB, nc net.Conn, target string, header http.Header, early ...frame) (*testClient, http.Header) {
	t.Helper()
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	c := &testClient{t: t, nc: nc, r: bufio.NewReader(nc)}
	c.raw(append([]byte(request("gyro.test", target, header)), masked(early...)...))
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("handshake: status %d", resp.StatusCode)
	}
	return c, resp.Header
}

func (c *testClient) raw(b []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("client write: %v", err)
	}
}

func (c *testClient) send(frames ...frame) {
	c.t.Helper()
	c.raw(masked(frames...))
}

func (c *testClient) read() (frame, error) { return frametest.Read(c.r) }

func (c *testClient) expect(want ...frame) {
	c.t.Helper()
	for _, w := range want {
		got, err := c.read()
		if err != nil {
			c.t.Fatalf("client got %v, want %v", err, w)
		}
		if got != w {
			c.t.Fatalf("client got %.200v, want %.200v", got, w)
		}
	}
}

func (c *testClient) expectEOF() {
	c.t.Helper()
	if f, err := c.read(); !errors.Is(err, io.EOF) {
		c.t.Fatalf("client got %v, %v, want the end", f, err)
	}
}

// testPeer is the core's end of a connection.
type testPeer struct {
	*peertest.Peer
	t testing.TB
}

// frames splits bytes as Conn.Write wants them: it makes one unmasked frame each.
func frames(msgs ...string) [][]byte {
	var list [][]byte
	for _, m := range msgs {
		list = append(list, frametest.Unmasked(text(m)))
	}
	return list
}

// skip returns frames without their first n bytes.
func skip(frames [][]byte, n int) [][]byte {
	for i, f := range frames {
		if n < len(f) {
			return append([][]byte{f[n:]}, frames[i+1:]...)
		}
		n -= len(f)
	}
	return nil
}

func (p *testPeer) write(msgs ...string) {
	p.t.Helper()
	list := frames(msgs...)
	total := len(bytes.Join(list, nil))
	if n, err := p.Conn.Write(list); n != total || err != nil {
		p.t.Fatalf("Write took %d of %d bytes: %v", n, total, err)
	}
}

// testServer serves a handler whose connections become testPeers.
type testServer struct {
	*httptest.Server
	t     testing.TB
	peers chan *testPeer
	// prepare, if set, changes a peer before it is accepted; an error refuses it.
	prepare func(p *testPeer) error
	tight   bool
	pipes   *fronttest.Pipes // by which clients come in virtual time; nil: by TCP
	loop    *loop.Loop       // nil for goroutines
	noLoop  atomic.Bool
	// order lets the race detector know that a client dials before it is accepted.
	order sync.Mutex

	accepted transport.Acceptor // nil, or gets the connections instead
}

var errTest = errors.New("test error")

func (s *testServer) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	if s.accepted != nil {
		return s.accepted.Accept(ctx, c, info)
	}
	return s.accept(ctx, c, info, c)
}

func (s *testServer) accept(ctx context.Context, c transport.Conn, info transport.Info, outside transport.Conn) (transport.Peer, error) {
	p := &testPeer{peertest.New(s.t, ctx, c, c, info), s.t}
	s.order.Lock()
	s.order.Unlock() //nolint:staticcheck // nothing to guard
	if s.prepare != nil {
		if err := s.prepare(p); err != nil {
			return nil, err
		}
	}
	p.Conn = outside
	s.peers <- p
	return p, nil
}

// NextLoop implements nodeaccess.Acceptor.
func (s *testServer) NextLoop() transport.Loop {
	if s.loop == nil || s.noLoop.Load() {
		return nil
	}
	return s.loop.Sockets()
}

// AcceptOn is Accept for a connection on a loop, which tests use from their own goroutines.
func (s *testServer) AcceptOn(l transport.Loop, ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	if s.accepted != nil {
		return s.accepted.Accept(ctx, drivertest.OnLoop(l, c), info)
	}
	return s.accept(ctx, c, info, drivertest.OnLoop(l, c))
}

func newServer(t testing.TB, cfg Config) *testServer {
	s := &testServer{t: t, peers: make(chan *testPeer, 2000)}
	s.runLoop()
	h := NewHandler(s, cfg)
	s.Server = httptest.NewUnstartedServer(h)
	s.begin(h)
	return s
}

// testTLS has the certificate of package httptest.
func testTLS() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates}
}

// begin starts the server in the way of this run.
func (s *testServer) begin(h *Handler) {
	switch {
	case secure:
		s.Config.TLSConfig = testTLS()
		s.Listener = front.ListenTLS(s.Listener, s.Config, s, h.Route("/"))
	case direct:
		s.Listener = front.Listen(s.Listener, s.Config, s, h.Route("/"))
	}
	s.Start()
	s.t.Cleanup(s.Server.Close)
}

// runLoop gives the server a loop if this is the run of that driver.
func (s *testServer) runLoop() {
	if onLoops && poll.Supported() {
		s.loop = loop.New()
		go s.loop.Run()
		s.t.Cleanup(s.loop.Close)
	}
}

// newTightServer has small kernel buffers, so that they are soon full.
func newTightServer(t testing.TB, cfg Config) *testServer {
	s := &testServer{t: t, peers: make(chan *testPeer, 2000), tight: true}
	s.runLoop()
	s.Server = httptest.NewUnstartedServer(NewHandler(s, cfg)) // routes know no ConnContext
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
		return ctx
	}
	s.Start()
	t.Cleanup(s.Server.Close)
	return s
}

func (s *testServer) dial() net.Conn {
	s.t.Helper()
	s.order.Lock()
	s.order.Unlock() //nolint:staticcheck // nothing to guard
	if s.pipes != nil {
		return s.pipes.Dial()
	}
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.tight {
		_ = nc.(*net.TCPConn).SetReadBuffer(16 << 10)
	}
	if secure && !s.tight {
		return tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
	}
	return nc
}

// connect returns both ends of a new connection.
func (s *testServer) connect(target string, header http.Header, early ...frame) (*testClient, *testPeer) {
	s.t.Helper()
	c, _ := newClient(s.t, s.dial(), target, header, early...)
	return c, wait.Receive(s.t, "a peer", s.peers)
}
