package wtlink_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	wt "github.com/quic-go/webtransport-go"
	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/httplink"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
	"github.com/gyrohq/gyro/transport/webtransport"
	"github.com/gyrohq/gyro/transport/webtransport/internal/wttest"
	"github.com/gyrohq/gyro/transport/webtransport/wtlink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// listen serves a handler over HTTP/3.
func listen(t *testing.T, address string, h http.Handler) *webtransport.Server {
	t.Helper()
	s := must[*webtransport.Server](t)(webtransport.Listen(wttest.UDP(t, address), &http.Server{Handler: h, TLSConfig: wttest.SelfSigned(1), ErrorLog: log.New(io.Discard, "", 0)}))
	wttest.Serve(t, s.Serve, s.Close, http.ErrServerClosed)
	return s
}

// newNode returns a node with a handler of WebTransport, at /connection/webtransport.
func newNode(t *testing.T) (*gyro.Node, http.Handler) {
	t.Helper()
	node := gyrotest.NewNode(t, gyro.Config{
		Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{
			Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
				return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}, Data: fmt.Appendf(nil, "%q", e.Transport.Header().Get("X-Test"))}, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, Positioned: true}}, nil
			},
			Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
				return gyro.PublishReply{}, nil
			},
			RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
				return bytes.Repeat(e.Data, len(e.Method)), nil
			},
		},
	})
	mux := http.NewServeMux()
	mux.Handle("/connection/webtransport", webtransport.NewHandler(node, webtransport.Config{WriteTimeout: time.Minute}))
	return node, mux
}

func endpoint(s *webtransport.Server) string {
	return "https://" + s.Addr().String() + "/connection/webtransport"
}

func newClient(t *testing.T, over client.Transport, o client.Options) *client.Client {
	t.Helper()
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second) // the default is too short for a busy machine, as is that of writes
	o.TLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}
	c := must[*client.Client](t)(client.NewOver(over, o))
	t.Cleanup(c.Close)
	return c
}

// TestConversation: commands and pushes of all sizes in both encodings, and a server that comes back without a loss.
func TestConversation(t *testing.T) {
	t.Parallel()
	for _, e := range []protocol.Encoding{protocol.JSON, protocol.Protobuf} {
		t.Run(e.String(), func(t *testing.T) {
			t.Parallel()
			node, h := newNode(t)
			s := listen(t, "127.0.0.1:0", h)
			c := newClient(t, wtlink.WebTransport(endpoint(s)), client.Options{
				Encoding: e, Header: http.Header{"X-Test": {"yes"}}, MinDelay: 10 * time.Millisecond, MaxDelay: 50 * time.Millisecond,
			})
			sub := must[*client.Subscription](t)(c.NewSubscription("news", nil))
			events := c.Events(within(t))
			publications := sub.Publications(within(t))
			sub.Subscribe()
			if err := c.Connect(within(t)); err != nil {
				t.Fatal(err)
			}
			if e := next[client.ConnectedEvent](t, events); e.Transport != "webtransport" || string(e.Data) != `"yes"` {
				t.Errorf("%+v", e)
			}
			long := `"` + strings.Repeat("long ", 10_000) + `"`
			if got := must[[]byte](t)(c.RPC(within(t), "1", []byte(long))); string(got) != long {
				t.Errorf("%d bytes came back of %d", len(got), len(long))
			}
			if err := sub.Publish(within(t), []byte(`{"n":1}`)); err != nil {
				t.Fatal(err)
			}
			address := s.Addr().String()
			s.Close()
			for _, data := range []string{`{"n":2}`, long} {
				must[gyro.PublishResult](t)(node.Publish(within(t), "news", []byte(data), nil))
			}
			listen(t, address, h)
			want := []string{`{"n":1}`, `{"n":2}`, long}
			for p, err := range publications {
				if err != nil || string(p.Data) != want[0] {
					t.Fatalf("%.100s, %v", p.Data, err)
				}
				if want = want[1:]; len(want) == 0 {
					break
				}
			}
		})
	}
}

// next returns the next event of a type.
func next[E client.Event](t *testing.T, events iter.Seq[client.Event]) E {
	t.Helper()
	for e := range events {
		if e, ok := e.(E); ok {
			return e
		}
	}
	var none E
	t.Fatalf("there is no %T", none)
	return none
}

// begin begins to connect, and returns the events from then on.
func begin(t *testing.T, c *client.Client) iter.Seq[client.Event] {
	t.Helper()
	events := c.Events(within(t))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Connect(over) // the events tell
	return events
}

// TestEnds: the client learns how a connection ends, whether a push says it, or the session alone.
func TestEnds(t *testing.T) {
	t.Parallel()
	node, h := newNode(t)
	s := listen(t, "127.0.0.1:0", h)
	c := newClient(t, wtlink.WebTransport(endpoint(s)), client.Options{MessageLimit: 20_000})
	if err := c.Connect(within(t)); err != nil {
		t.Fatal(err)
	}
	events := c.Events(within(t))
	if err := node.Users().Disconnect(within(t), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &gyro.Disconnect{Code: 4500, Reason: "bye"}}); err != nil {
		t.Fatal(err)
	}
	if got := next[client.DisconnectedEvent](t, events).Reason; got != (client.Reason{Code: 4500, Text: "bye"}) {
		t.Error(got)
	}
	if err := c.Connect(within(t)); err != nil {
		t.Fatal(err)
	}
	_, _ = c.RPC(within(t), "ten", bytes.Repeat([]byte("1"), 9_000))
	if state, reason := c.State(); state != client.Disconnected || reason != client.MessageSizeLimit {
		t.Error(state, reason)
	}
}

// TestSessionCode: a server may end the session alone, with a code.
func TestSessionCode(t *testing.T) {
	t.Parallel()
	s := &wt.Server{H3: &http3.Server{TLSConfig: http3.ConfigureTLSConfig(wttest.SelfSigned(1)), EnableDatagrams: true, Logger: slog.New(slog.DiscardHandler)}}
	s.H3.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := s.Upgrade(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		stream, err := session.AcceptStream(r.Context())
		if err == nil {
			_, err = io.ReadFull(stream, make([]byte, 10))
		}
		if err := errors.Join(err, session.CloseWithError(4501, "gone away")); err != nil {
			t.Error(err)
		}
	})
	wt.ConfigureHTTP3Server(s.H3)
	conn := wttest.UDP(t, "127.0.0.1:0")
	wttest.Serve(t, func() error { return s.Serve(conn) }, func() error { return errors.Join(s.Close(), conn.Close()) }, context.Canceled)
	c := newClient(t, wtlink.WebTransport("https://"+conn.LocalAddr().String()+"/"), client.Options{})
	if got := next[client.DisconnectedEvent](t, begin(t, c)).Reason; got != (client.Reason{Code: 4501, Text: "gone away"}) {
		t.Error(got)
	}
}

// TestRefused: what stands in the way is told, and another transport is taken.
func TestRefused(t *testing.T) {
	t.Parallel()
	node, h := newNode(t)
	s := listen(t, "127.0.0.1:0", h)
	hour := client.Options{MinDelay: time.Hour, MaxDelay: time.Hour}
	elsewhere := newClient(t, wtlink.WebTransport("https://"+s.Addr().String()+"/elsewhere"), hour)
	if err := next[client.ErrorEvent](t, begin(t, elsewhere)).Err; err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
	closed := wttest.UDP(t, "127.0.0.1:0")
	blocked := "https://" + closed.LocalAddr().String() + "/"
	t.Cleanup(func() { closed.Close() }) // packets to it are lost
	tcp := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	ws := &http.Server{Handler: websocket.NewHandler(node, websocket.Config{}), ReadHeaderTimeout: time.Minute}
	go func() { _ = ws.Serve(tcp) }()
	t.Cleanup(func() { ws.Close() })
	over := httplink.Fallback(nil, wtlink.WebTransport(blocked), client.WebSocket("ws://"+tcp.Addr().String()))
	for _, o := range []client.Options{
		{Timeout: time.Second, MinDelay: time.Millisecond}, // on a busy machine, WebSocket may take longer, and is tried again
		{DialContext: new(net.Dialer).DialContext, MinDelay: time.Hour, MaxDelay: time.Hour},
	} {
		c := newClient(t, over, o)
		events := c.Events(within(t))
		if err := c.Connect(within(t)); err != nil {
			t.Fatal(err)
		}
		if got := next[client.ConnectedEvent](t, events).Transport; got != "websocket" {
			t.Error(got)
		}
	}
}

// TestEndpoint: what is wrong with an endpoint, or cannot be.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "wss://x/", "http://x/", "https:///path", "https://x:y/", ":"} {
		if _, err := client.NewOver(wtlink.WebTransport(url), client.Options{}); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
	c, err := client.NewOver(wtlink.WebTransport("https://example.com/x"), client.Options{Encoding: protocol.Protobuf})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, err = client.NewOver(wtlink.WebTransport("https://x/"), client.Options{DialContext: new(net.Dialer).DialContext})
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "UDP") {
		t.Error(err)
	}
}
