package webtransport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

// newNode starts a node that lets everybody do everything.
func newNode(t *testing.T, change func(*gyro.Config)) *gyro.Node {
	t.Helper()
	cfg := gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{}, nil
		},
	}}
	if change != nil {
		change(&cfg)
	}
	n := must[*gyro.Node](t)(gyro.New(cfg))
	if err := n.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// connect connects and subscribes to a channel.
func (c *testClient) connect(ch string) *testClient {
	c.t.Helper()
	c.open()
	c.command(&protocol.Command{ID: 1, Connect: new(protocol.ConnectRequest)})
	if r := c.reply(); r.ID != 1 || r.Connect == nil {
		c.t.Fatalf("got %+v", r)
	}
	c.command(&protocol.Command{ID: 2, Subscribe: &protocol.SubscribeRequest{Channel: ch}})
	if r := c.reply(); r.ID != 2 || r.Subscribe == nil {
		c.t.Fatalf("got %+v", r)
	}
	return c
}

// TestConversation: two clients of each encoding talk, and each learns why it is disconnected.
func TestConversation(t *testing.T) {
	node := newNode(t, nil)
	s := newServer(t, Config{WriteTimeout: patience}, node, nil) // the default is too short for a busy machine
	long := strings.Repeat("x", 60000)
	var clients []*testClient
	for _, query := range []string{"", "?cf_protocol=json", "?cf_protocol=protobuf", "?format=protobuf"} {
		clients = append(clients, s.dial(query, nil).connect("news"))
	}
	for i, c := range clients {
		data := fmt.Sprintf(`{"n":%d,"long":%q}`, i, long)
		c.command(&protocol.Command{ID: 3, Publish: &protocol.PublishRequest{Channel: "news", Data: []byte(data)}})
		for _, reader := range clients {
			for done := false; !done; {
				switch r := reader.reply(); {
				case r.ID == 3 && r.Publish != nil: // of this round or the one before
				case r.Push != nil && r.Push.Pub != nil && r.Push.Channel == "news" && string(r.Push.Pub.Data) == data:
					done = true
				default:
					t.Fatalf("got %.200v", r)
				}
			}
		}
	}
	if got := node.NumClients(); got != len(clients) {
		t.Errorf("%d clients", got)
	}
	if err := node.Users().Disconnect(t.Context(), gyro.Target{User: "u"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		c.wantEnd(protocol.DisconnectForceNoReconnect)
	}
}

// TestServerCloses: the server closes the session of a client that does not.
func TestServerCloses(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{CloseTimeout: 10 * time.Millisecond}, nil, nil)
		c := s.dial("", nil).open()
		c.write("hello\n")
		p := wait.Receive(t, "a peer", s.peers)
		p.Message()
		p.Conn.Close(protocol.DisconnectForceReconnect, nil)
		wantClosed(t, p, protocol.DisconnectForceReconnect)
		c.wantSession(protocol.DisconnectForceReconnect)
		// Code 0 leaves it to the client, for a while.
		c = s.dial("", nil).open()
		c.write("hello\n")
		p = wait.Receive(t, "a peer", s.peers)
		p.Message()
		p.Conn.Close(protocol.Disconnect{}, [][]byte{[]byte("an error\n")})
		wantClosed(t, p, nil)
		c.wantSession(protocol.Disconnect{})
	})
}

// TestPings: a client that does not answer is disconnected, and one that answers is not.
func TestPings(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, newNode(t, nil), nil)
		c := s.dial("", nil).connect("news")
		for _, answers := range []bool{true, false} {
			if text := must[string](t)(c.frame()); text != "{}\n" {
				t.Fatalf("got %q", text)
			}
			if answers {
				c.command(new(protocol.Command))
			}
		}
		c.wantEnd(protocol.DisconnectNoPong)
	})
}

// TestBadMessages: what is no message ends the connection with a disconnect push, in the encoding of
// the connection, and leaves a line in the log of the node.
func TestBadMessages(t *testing.T) {
	s := newServer(t, Config{MessageSizeLimit: 100}, newNode(t, nil), nil)
	tooLarge := protocol.Disconnect{Code: protocol.DisconnectBadRequest.Code, Reason: "message size limit exceeded"}
	long := strings.Repeat("x", 101)
	for _, tt := range []struct {
		query, text string
		want        protocol.Disconnect
	}{
		{"", "garbage\n", protocol.DisconnectBadRequest},
		{"", `{"id":1,"connect":{}` + "\n", protocol.DisconnectBadRequest},
		{"", long + "\n", tooLarge},
		{"", long, tooLarge},
		{"?cf_protocol=protobuf", "\x65", tooLarge},
		{"?cf_protocol=protobuf", "\x02\xff\xff", protocol.DisconnectBadRequest},
		{"?cf_protocol=protobuf", strings.Repeat("\xff", 11), protocol.DisconnectBadRequest},
	} {
		c := s.dial(tt.query, nil).open()
		c.write(tt.text)
		c.wantEnd(tt.want)
	}
}

// TestPieces: a message may come in any pieces, and several together are one for the peer.
func TestPieces(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	c := s.dial("", nil).open()
	c.write("a")
	p := wait.Receive(t, "a peer", s.peers)
	c.write("b\nc\nd")
	got := p.Message()
	for !strings.HasSuffix(got, "c\n") {
		got += p.Message()
	}
	c.write("\n")
	if got += p.Message(); got != "ab\nc\nd\n" {
		t.Errorf("got %q", got)
	}
	info := p.Info
	if info.Name != "webtransport" || !info.DisconnectPush || info.Framer.Encoding() != protocol.JSON || info.RemoteAddr == "" {
		t.Errorf("%+v", info)
	}
	// The client's end of the stream ends the connection.
	c.stream.Close()
	wantClosed(t, p, nil)
	c.wantSession(protocol.Disconnect{})
}

// TestRefusedRequests: what opens no session.
func TestRefusedRequests(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	client, _ := s.http()
	if got := get(t, client, s.url("/wt")); got != "HTTP/3.0 405 webtransport: the method is not CONNECT: this path is for WebTransport clients\n" {
		t.Error(got)
	}
	over := httptest.NewServer(s.mux)
	defer over.Close()
	if got := get(t, over.Client(), over.URL+"/wt"); got != "HTTP/1.1 400 webtransport: this path is for WebTransport clients, which come over HTTP/3\n" {
		t.Error(got)
	}
	over.Client().CloseIdleConnections()
	for origin, want := range map[string]int{"https://elsewhere.example": 403, "null": 403, "https://" + s.Addr().String(): 200, "": 200} {
		_, status, err := s.tryDial("/wt", func(_ *quic.Config, h http.Header) {
			if origin != "" {
				h.Set("Origin", origin)
			}
		})
		if status != want || (err == nil) != (want == 200) {
			t.Errorf("%s: %d, %v", origin, status, err)
		}
	}
	if _, status, _ := s.tryDial("/nothing", nil); status != 404 {
		t.Errorf("status %d", status)
	}
	s.connectOther()
}

// connectOther asks for another protocol than WebTransport.
func (s *testServer) connectOther() {
	s.t.Helper()
	conn := must[*quic.Conn](s.t)(s.dialQUIC(s.t.Context(), clientQUIC(), clientTLS()))
	defer conn.CloseWithError(0, "")
	str := must[*http3.RequestStream](s.t)((&http3.Transport{}).NewClientConn(conn).OpenRequestStream(s.t.Context()))
	req := must[*http.Request](s.t)(http.NewRequest(http.MethodConnect, s.url("/wt"), nil))
	req.Proto = "websocket"
	if err := str.SendRequestHeader(req); err != nil {
		s.t.Fatal(err)
	}
	res, err := str.ReadResponse()
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		s.t.Errorf("status %d", res.StatusCode)
	}
}

// TestNoStream: a session whose client opens no stream is as stale as a connection without a connect command.
func TestNoStream(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, newNode(t, nil), nil)
		without := s.dial("", nil)
		c := s.dial("", nil).open()
		c.write("{") // or a stream, but no command
		c.wantEnd(protocol.DisconnectStale)
		without.wantSession(protocol.DisconnectStale)
	})
}

// TestShuttingDownNode: a node that takes no clients any more.
func TestShuttingDownNode(t *testing.T) {
	node := newNode(t, nil)
	s := newServer(t, Config{}, node, nil)
	if err := node.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.dial("", nil).wantSession(protocol.DisconnectShutdown)
}

// TestFurtherStreams: only the first stream counts. Others are refused, and datagrams ignored.
func TestFurtherStreams(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	c := s.dial("", nil).open()
	c.write("one\n")
	p := wait.Receive(t, "a peer", s.peers)
	p.Message()
	for range 100 { // more than the queue of datagrams
		_ = c.session.SendDatagram([]byte("two\n"))
	}
	second := must[*wt.Stream](t)(c.session.OpenStream())
	must[int](t)(second.Write([]byte("three\n")))
	_ = second.SetReadDeadline(time.Now().Add(patience))
	var reset *wt.StreamError
	if _, err := second.Read(make([]byte, 1)); !errors.As(err, &reset) || reset.ErrorCode != refused {
		t.Errorf("second stream: %v", err)
	}
	uni := must[*wt.SendStream](t)(c.session.OpenUniStream())
	must[int](t)(uni.Write([]byte("four\n")))
	wait.Receive(t, "refusal of the stream", uni.Context().Done())
	c.write("five\n")
	if got := p.Message(); got != "five\n" {
		t.Errorf("got %q", got)
	}
	// Whoever goes on is not a client.
	for c.session.Context().Err() == nil {
		str, err := c.session.OpenStreamSync(t.Context())
		if err != nil {
			break
		}
		_, _ = str.Write([]byte("x"))
		_, _ = str.Read(make([]byte, 1))
	}
	c.wantSession(protocol.Disconnect{Code: protocol.DisconnectBadRequest.Code, Reason: "too many streams"})
	wantClosed(t, p, nil)
}

// slow gives the client small windows, which it never enlarges because it does not read.
func slow(cfg *quic.Config, _ http.Header) {
	cfg.InitialStreamReceiveWindow, cfg.MaxStreamReceiveWindow = 4<<10, 4<<10
}

// TestSlowClient: a client that does not read loses the connection, because of the queue or of the time.
func TestSlowClient(t *testing.T) {
	t.Run("queue", func(t *testing.T) {
		inMemory(t, func(t *testing.T, net *network) {
			node := newNode(t, func(cfg *gyro.Config) { cfg.QueueMaxSize = 100 << 10 })
			s := net.newServer(t, Config{}, node, nil)
			c := s.dial("", slow).connect("news")
			data := []byte(`"` + strings.Repeat("x", 10<<10) + `"`)
			for range 50 {
				must[gyro.PublishResult](t)(node.Publish(t.Context(), "news", data, nil))
			}
			c.wantSession(protocol.DisconnectSlow)
		})
	})
	t.Run("time", func(t *testing.T) {
		inMemory(t, func(t *testing.T, net *network) {
			s := net.newServer(t, Config{}, nil, nil)
			c := s.dial("", slow).open()
			c.write("hello\n")
			p := wait.Receive(t, "a peer", s.peers)
			p.Message()
			must[int](t)(p.Conn.Write([][]byte{[]byte(strings.Repeat("x", 50<<10) + "\n")}))
			wantClosed(t, p, protocol.DisconnectWriteError)
			wait.Receive(t, "end of the session", c.session.Context().Done())
		})
	})
}

// TestPause: a paused connection reads no more than the windows of QUIC hold.
func TestPause(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, nil)
		c := s.dial("", nil).open()
		c.write("hello\n")
		p := wait.Receive(t, "a peer", s.peers)
		p.Message()
		p.Conn.Pause(true)
		line := strings.Repeat("x", 999) + "\n"
		sent := 0
		for sent <= maxConnWindow {
			_ = c.stream.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			n, err := c.stream.Write([]byte(line[sent%len(line):]))
			if sent += n; err != nil {
				break
			}
		}
		if sent > maxConnWindow {
			t.Errorf("the server took %d bytes", sent)
		}
		p.Conn.Pause(false)
		for got := 0; got < sent-len(line); {
			got += len(p.Message())
		}
	})
}

// TestVanishedClient: a client whose packets stop.
func TestVanishedClient(t *testing.T) {
	inMemory(t, func(t *testing.T, net *network) {
		s := net.newServer(t, Config{}, nil, nil)
		c := s.dial("", nil).open()
		c.write("hello\n")
		p := wait.Receive(t, "a peer", s.peers)
		p.Message()
		net.newest.Close()
		wantClosed(t, p, nil)
	})
}

// TestClientCloses: the client ends its session.
func TestClientCloses(t *testing.T) {
	s := newServer(t, Config{}, nil, nil)
	for _, how := range []func(c *testClient){
		func(c *testClient) { c.session.CloseWithError(7, "bye") },
		func(c *testClient) { c.stream.CancelWrite(3); c.stream.CancelRead(3) },
		func(c *testClient) { c.stream.Close(); c.session.CloseWithError(0, "") },
	} {
		c := s.dial("", nil).open()
		c.write("hello\nrest")
		p := wait.Receive(t, "a peer", s.peers)
		if got := p.Message(); got != "hello\n" {
			t.Errorf("got %q", got)
		}
		how(c)
		wantClosed(t, p, nil)
	}
}
