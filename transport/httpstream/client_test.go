package httpstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/loop"
	"github.com/gyrohq/gyro/internal/poll"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/front"
	"github.com/gyrohq/gyro/transport/internal/drivertest"
	"github.com/gyrohq/gyro/transport/internal/peertest"
)

// streams are the kinds whose answers go on.
var streams = kinds[:UniPoll]

// way is how connections get to their driver.
type way int

const (
	byGoroutines way = iota // the connection stays with goroutines
	byHijack                // net/http reads the request, then the connection moves to a loop
	byRoute                 // a loop reads the request
	byTLS                   // HTTP/1.1 over TLS
	byHTTP2
	ways
)

func (w way) String() string {
	return [...]string{"goroutines", "hijack", "route", "TLS", "HTTP/2"}[w]
}

func TestMain(m *testing.M) {
	code := m.Run()
	// net/http waits half a second before it closes a connection whose client still sends.
	lingering := goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")
	if err := goleak.Find(lingering); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience bounds every wait of a test; none takes anywhere near as long.
const patience = wait.Limit

// testPeer is the core's end of a connection.
type testPeer struct {
	*peertest.Peer
	t testing.TB
}

// frame makes a frame as the core does.
func (p *testPeer) frame(messages string) []byte {
	f := p.Info.Framer
	return bytes.Clone(f.Frame(append(make([]byte, f.Headroom()), messages...)))
}

func (p *testPeer) write(messages string) {
	p.t.Helper()
	for b := p.frame(messages); len(b) > 0; {
		n, err := p.Conn.Write([][]byte{b})
		if err != nil {
			p.t.Fatalf("Write took %d of %d bytes: %v", n, len(b), err)
		}
		if b = b[n:]; len(b) > 0 {
			wait.Receive(p.t, "Writable", p.Ready)
		}
	}
}

// testServer serves a handler at its traits' name, whose connections become testPeers.
type testServer struct {
	*httptest.Server
	t     testing.TB
	way   way
	kind  Kind
	peers chan *testPeer
	loop  *loop.Loop                // nil for goroutines
	fail  func(p *testPeer) error   // nil, or called before accepting
	edit  func(server *http.Server) // nil, or changes the server
	gate  front.Gate                // nil: none

	accepted transport.Acceptor // nil, or gets the connections instead
}

func newServer(t testing.TB, k Kind, w way, cfg Config, edit func(*testServer)) *testServer {
	s := &testServer{t: t, way: w, kind: k, peers: make(chan *testPeer, 2000)}
	if edit != nil {
		edit(s)
	}
	if w == byHijack || w == byRoute {
		if !poll.Supported() {
			t.Skip("loops watch no sockets here")
		}
		s.loop = loop.New()
		go s.loop.Run()
		t.Cleanup(s.loop.Close)
	}
	h := NewHandler(k, s, cfg)
	mux := http.NewServeMux()
	if s.gate != nil {
		mux.Handle(s.path(), front.Wrap(s.gate, h))
	} else {
		mux.Handle(s.path(), h)
	}
	s.Server = httptest.NewUnstartedServer(mux)
	if s.edit != nil {
		s.edit(s.Config)
	}
	switch w {
	case byRoute:
		routes := h.Routes(s.path())
		for i := range routes {
			routes[i].Gate = s.gate
		}
		s.Listener = front.Listen(s.Listener, s.Config, s, routes...)
		s.Start()
	case byTLS:
		s.StartTLS()
	case byHTTP2:
		s.EnableHTTP2 = true
		s.StartTLS()
	default:
		s.Start()
	}
	t.Cleanup(s.Server.Close)
	return s
}

func (s *testServer) path() string { return "/connection/" + kinds[s.kind].name }

func (s *testServer) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	if s.accepted != nil {
		return s.accepted.Accept(ctx, c, info)
	}
	return s.accept(ctx, c, info, c)
}

func (s *testServer) accept(ctx context.Context, c transport.Conn, info transport.Info, outside transport.Conn) (transport.Peer, error) {
	p := &testPeer{peertest.New(s.t, ctx, c, outside, info), s.t}
	if s.fail != nil {
		if err := s.fail(p); err != nil {
			return nil, err
		}
	}
	s.peers <- p
	return p, nil
}

// NextLoop implements nodeaccess.Acceptor.
func (s *testServer) NextLoop() transport.Loop {
	if s.loop == nil {
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

// usual returns a request that opens a stream.
func (s *testServer) usual() *http.Request {
	t := &kinds[s.kind]
	text := `{"id":1,"connect":{}}`
	if t.mode == transport.OneWay {
		text = `{"data":{"a":"é"}}`
	}
	var r *http.Request
	if t.events() {
		r, _ = http.NewRequest(http.MethodGet, s.URL+s.path()+"?cf_connect="+queryEscape(text), nil)
	} else {
		r, _ = http.NewRequest(http.MethodPost, s.URL+s.path(), strings.NewReader(text))
	}
	return r
}

func queryEscape(s string) string {
	return strings.NewReplacer("{", "%7B", "\"", "%22", " ", "+").Replace(s)
}

// answer is a response whose body is closed when the test ends.
type answer http.Response

// open sends a request and returns the answer, whose body is read as it comes.
func (s *testServer) open(r *http.Request) *answer {
	s.t.Helper()
	c := s.Client()
	resp, err := c.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		resp.Body.Close()
		c.CloseIdleConnections()
	})
	return (*answer)(resp)
}

// connect returns both ends of a usual stream.
func (s *testServer) connect() (*bufio.Reader, *answer, *testPeer) {
	s.t.Helper()
	resp := s.open(s.usual())
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d", resp.StatusCode)
	}
	return bufio.NewReader(resp.Body), resp, wait.Receive(s.t, "a peer", s.peers)
}

func expect(t testing.TB, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); string(got) != want {
		t.Fatalf("the client got %q, %v, want %q", got[:n], err, want)
	}
}

func expectEnd(t testing.TB, r io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Fatalf("the client got %q, %v, want the end of the body", rest, err)
	}
}

// dial opens a connection for what http.Client does not send.
func (s *testServer) dial() net.Conn {
	s.t.Helper()
	nc, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// each runs a test for all kinds and ways.
func each(t *testing.T, test func(t *testing.T, k Kind, w way)) {
	for k := range streams {
		for w := range ways {
			t.Run(fmt.Sprintf("%s/%v", kinds[k].name, w), func(t *testing.T) { test(t, Kind(k), w) })
		}
	}
}
