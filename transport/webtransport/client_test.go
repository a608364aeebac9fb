package webtransport

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/protocol/codec"
	"github.com/gyrohq/gyro/transport"
	"github.com/gyrohq/gyro/transport/internal/peertest"
	"github.com/gyrohq/gyro/transport/webtransport/internal/wttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait.
const patience = wait.Limit

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// testServer is a Server with a Handler at /wt, and an acceptor that hands its peers to the test.
type testServer struct {
	*Server
	t       *testing.T
	network *network
	mux     *http.ServeMux
	peers   chan *peertest.Peer
	log     *logtest.Buffer
}

// newServer starts a server on this machine. change may change its settings; a is the acceptor, by default the
// server itself.
func newServer(t *testing.T, cfg Config, a transport.Acceptor, change func(*http.Server)) *testServer {
	t.Helper()
	return (*network)(nil).newServer(t, cfg, a, change)
}

// newServer is the function of that name, for any network.
func (n *network) newServer(t *testing.T, cfg Config, a transport.Acceptor, change func(*http.Server)) *testServer {
	t.Helper()
	s := &testServer{t: t, network: n, mux: http.NewServeMux(), peers: make(chan *peertest.Peer, 8), log: new(logtest.Buffer)}
	if a == nil {
		a = s
	}
	s.mux.Handle("/wt", NewHandler(a, cfg))
	h := &http.Server{Handler: s.mux, TLSConfig: wttest.SelfSigned(1), ErrorLog: log.New(s.log, "", 0)}
	if change != nil {
		change(h)
	}
	s.Server = must[*Server](t)(listen(n.endpoint(t), h))
	wttest.Serve(t, s.Serve, s.Close, http.ErrServerClosed)
	return s
}

func (s *testServer) url(path string) string { return "https://" + s.Addr().String() + path }

// Accept implements transport.Acceptor.
func (s *testServer) Accept(ctx context.Context, c transport.Conn, info transport.Info) (transport.Peer, error) {
	p := peertest.New(s.t, ctx, c, c, info)
	s.peers <- p
	return p, nil
}

func wantClosed(t *testing.T, p *peertest.Peer, want error) {
	t.Helper()
	if err := p.ClosedWith(); want != nil && !errors.Is(err, want) {
		t.Errorf("Closed(%v), want %v", err, want)
	}
}

// Settings of the clients.
func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}
}

func clientQUIC() *quic.Config {
	return &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true, HandshakeIdleTimeout: patience}
}

// testClient is a client with a session.
type testClient struct {
	t       *testing.T
	codec   codec.ClientCodec
	session *wt.Session
	stream  *wt.Stream // nil until open
	r       *bufio.Reader
}

// dial opens a session, without a stream.
func (s *testServer) dial(query string, change func(*quic.Config, http.Header)) *testClient {
	s.t.Helper()
	c, status, err := s.tryDial("/wt"+query, change)
	if err != nil {
		s.t.Fatal(status, err)
	}
	return c
}

func (s *testServer) tryDial(path string, change func(*quic.Config, http.Header)) (*testClient, int, error) {
	s.t.Helper()
	cfg, header := clientQUIC(), http.Header{}
	if change != nil {
		change(cfg, header)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	tr := &wt.Transport{TLSClientConfig: clientTLS(), QUICConfig: cfg,
		DialAddr: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return s.dialQUIC(ctx, q, t)
		},
	}
	res, session, err := tr.Dial(ctx, s.url(path), header) //nolint:bodyclose // the session ends the stream
	status := 0
	if res != nil {
		status = res.StatusCode
	}
	if err != nil {
		return nil, status, err
	}
	s.t.Cleanup(func() { session.CloseWithError(0, "") })
	e := protocol.JSON
	if strings.Contains(path, "protobuf") {
		e = protocol.Protobuf
	}
	return &testClient{t: s.t, session: session, codec: codec.ForClient(e)}, status, nil
}

// open opens the stream.
func (c *testClient) open() *testClient {
	c.t.Helper()
	c.stream = must[*wt.Stream](c.t)(c.session.OpenStream())
	_ = c.stream.SetReadDeadline(time.Now().Add(patience))
	c.r = bufio.NewReader(c.stream)
	return c
}

func (c *testClient) write(text string) {
	c.t.Helper()
	must[int](c.t)(io.WriteString(c.stream, text))
}

// frame returns the next message, with its delimiter.
func (c *testClient) frame() (string, error) {
	if c.codec.Encoding() == protocol.JSON {
		return c.r.ReadString('\n')
	}
	n, err := binary.ReadUvarint(c.r)
	if err != nil {
		return "", err
	}
	b := binary.AppendUvarint(nil, n)
	b = append(b, make([]byte, n)...)
	_, err = io.ReadFull(c.r, b[len(b)-int(n):])
	return string(b), err
}

// command sends a command.
func (c *testClient) command(cmd *protocol.Command) {
	c.t.Helper()
	b := must[[]byte](c.t)(c.codec.AppendCommand(nil, cmd))
	if c.codec.Encoding() == protocol.JSON {
		b = append(b, '\n')
	}
	c.write(string(b))
}

// reply returns the next reply that is no ping.
func (c *testClient) reply() *protocol.Reply {
	c.t.Helper()
	for {
		r := new(protocol.Reply)
		text := must[string](c.t)(c.frame())
		must[[]byte](c.t)(c.codec.DecodeReply([]byte(text), r))
		if r.ID == 0 && r.Push == nil {
			c.command(new(protocol.Command)) // a pong
			continue
		}
		return r
	}
}

// wantEnd waits for a disconnect push and the end of the stream, and closes the session then.
func (c *testClient) wantEnd(d protocol.Disconnect) {
	c.t.Helper()
	for {
		r := c.reply()
		if r.ID != 0 || r.Push != nil && r.Push.Pub != nil {
			continue
		}
		if r.Push == nil || r.Push.Disconnect == nil || *r.Push.Disconnect != d {
			c.t.Fatalf("got %+v, want %v", r, d)
		}
		break
	}
	if text, err := c.frame(); text != "" || !errors.Is(err, io.EOF) {
		c.t.Fatalf("after the push: %q, %v", text, err)
	}
	c.session.CloseWithError(0, "")
}

// wantSession waits until the server closes the session with a code.
func (c *testClient) wantSession(d protocol.Disconnect) {
	c.t.Helper()
	wait.Receive(c.t, "end of the session", c.session.Context().Done())
	_, err := c.session.OpenStream()
	var got *wt.SessionError
	if !errors.As(err, &got) || !got.Remote || uint32(got.ErrorCode) != d.Code || got.Message != d.Reason {
		c.t.Errorf("the session ended with %v (%+v), want %v", err, got, d)
	}
}

// http returns an HTTP/3 client, and its only connection once it is dialed.
func (s *testServer) http() (*http.Client, func() *quic.Conn) {
	var conn *quic.Conn
	tr := &http3.Transport{TLSClientConfig: clientTLS(), QUICConfig: &quic.Config{HandshakeIdleTimeout: patience},
		Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (c *quic.Conn, err error) {
			conn, err = s.dialQUIC(ctx, q, t)
			return conn, err
		}}
	s.t.Cleanup(func() { tr.Close() })
	return &http.Client{Transport: tr, Timeout: patience}, func() *quic.Conn { return conn }
}

// get returns the protocol, the status and the body of an answer.
func get(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	return do(t, c, must[*http.Request](t)(http.NewRequest(http.MethodGet, url, nil)))
}

func do(t *testing.T, c *http.Client, r *http.Request) string {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return fmt.Sprintf("%s %d %s", res.Proto, res.StatusCode, must[[]byte](t)(io.ReadAll(res.Body)))
}
