package httplink_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/client/httplink"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/logtest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/front/fronttest"
	"github.com/gyrohq/gyro/transport/httpstream"
	"github.com/gyrohq/gyro/transport/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = wait.Limit

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

type server struct {
	*httptest.Server
	node *gyro.Node

	mu       sync.Mutex
	requests []string                  // methods and paths
	refuse   func(r *http.Request) int // a status in place of the answer; nil: none
}

func newServer(t *testing.T) *server {
	t.Helper()
	return newServerOn(t, nil)
}

// newServerOn has clients that come by pipes, in virtual time; nil: by TCP.
func newServerOn(t *testing.T, pipes *fronttest.Pipes) *server {
	t.Helper()
	s := &server{node: gyrotest.NewNode(t, gyro.Config{
		Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 100, HistoryTTL: time.Hour}),
		Handlers: gyro.Handlers{
			Connecting: func(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
				if e.Token == "wrong" {
					return gyro.ConnectReply{}, protocol.ErrorUnauthorized
				}
				return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
			},
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, Positioned: true}}, nil
			},
			Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
				return gyro.PublishReply{}, nil
			},
			RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) { return e.Data, nil },
		},
	})}
	mux := http.NewServeMux()
	mux.Handle("/connection/websocket", websocket.NewHandler(s.node, websocket.Config{}))
	mux.Handle("/connection/http_stream", httpstream.NewHandler(httpstream.HTTPStream, s.node, httpstream.Config{}))
	mux.Handle("/connection/sse", httpstream.NewHandler(httpstream.SSE, s.node, httpstream.Config{}))
	mux.Handle("/emulation", httpstream.NewEmulation(s.node, httpstream.EmulationConfig{}))
	s.Server = serve(pipes, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		refuse := s.refuse
		s.mu.Unlock()
		if refuse != nil {
			if status := refuse(r); status != 0 {
				http.Error(w, "the proxy does not like it", status)
				return
			}
		}
		if r.Header.Get("X-Test") != "yes" {
			t.Error("the header is missing in", r.Method, r.URL.Path)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func serve(pipes *fronttest.Pipes, h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	if pipes != nil {
		s.Listener.Close()
		s.Listener = pipes
	}
	s.Start()
	return s
}

type wires struct {
	mu   sync.Mutex
	open []net.Conn
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, c)
	return c, nil
}

func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		_ = c.Close() // it may have ended
	}
	w.open = nil
}

func (s *server) refusing(f func(r *http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

func (s *server) seen(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func dial(t *testing.T, over client.Transport, o client.Options) *client.Client {
	t.Helper()
	o.MinDelay, o.MaxDelay = time.Millisecond, 5*time.Millisecond
	o.Timeout = cmp.Or(o.Timeout, patience) // the default is too short for a busy machine
	o.Header = http.Header{"X-Test": {"yes"}}
	c, err := client.NewOver(over, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func follow(t *testing.T, ctx context.Context, c *client.Client) (*client.Subscription, func() (client.Publication, error, bool)) {
	t.Helper()
	sub, err := c.NewSubscription("news", nil)
	if err != nil {
		t.Fatal(err)
	}
	pubs, stop := iter.Pull2(sub.Publications(ctx))
	t.Cleanup(stop)
	sub.Subscribe()
	if err := c.Connect(ctx); err != nil {
		t.Fatal(err)
	}
	return sub, pubs
}

func events(t *testing.T, seq iter.Seq[client.Event]) func(match func(client.Event) bool) {
	next, stop := iter.Pull(seq)
	t.Cleanup(stop)
	return func(match func(client.Event) bool) {
		t.Helper()
		for {
			e, ok := next()
			if !ok {
				t.Fatal("the events end")
			}
			if match(e) {
				return
			}
		}
	}
}

func connected(next func(func(client.Event) bool)) (transport string) {
	next(func(e client.Event) bool {
		c, ok := e.(client.ConnectedEvent)
		transport = c.Transport
		return ok
	})
	return transport
}

func each(t *testing.T, test func(t *testing.T, s *server, over client.Transport, name string, e protocol.Encoding)) {
	for _, one := range []struct {
		name     string
		encoding protocol.Encoding
		over     func(s *server) client.Transport
	}{
		{"http_stream", protocol.JSON, func(s *server) client.Transport { return httplink.Stream(s.URL+"/connection/http_stream", nil) }},
		{"http_stream", protocol.Protobuf, func(s *server) client.Transport { return httplink.Stream(s.URL+"/connection/http_stream", nil) }},
		{"sse", protocol.JSON, func(s *server) client.Transport {
			return httplink.SSE(s.URL+"/connection/sse", &httplink.Options{Emulation: s.URL + "/emulation"})
		}},
	} {
		t.Run(fmt.Sprint(one.name, one.encoding), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			test(t, s, one.over(s), one.name, one.encoding)
		})
	}
}

// TestCommands: what a client does, and a refusal.
func TestCommands(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server, over client.Transport, name string, e protocol.Encoding) {
		ctx := within(t)
		c := dial(t, over, client.Options{Encoding: e})
		own := events(t, c.Events(ctx))
		sub, pubs := follow(t, ctx, c)
		if got := connected(own); got != name {
			t.Errorf("over %q", got)
		}
		text := `{"text":"\"<ü>\" \\ ` + strings.Repeat("long ", 10_000) + `"}`
		if err := sub.Publish(ctx, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if p, err, _ := pubs(); err != nil || string(p.Data) != text {
			t.Errorf("%.100s %v", p.Data, err)
		}
		// Many at a time go together, and no post is too large.
		var calls sync.WaitGroup
		for n := range 200 {
			calls.Go(func() {
				data := fmt.Sprintf(`{"n":%d,"text":%q}`, n, strings.Repeat("x", 2000))
				if got, err := c.RPC(ctx, "echo", []byte(data)); err != nil || string(got) != data {
					t.Errorf("%.50s %v", got, err)
				}
			})
		}
		calls.Wait()
		if posts := s.seen("POST /emulation"); posts > 150 {
			t.Errorf("%d posts", posts)
		}
		refused := dial(t, over, client.Options{Encoding: e, Token: "wrong"})
		var why client.Reason
		if err := refused.Connect(ctx); !errors.As(err, &why) || why.Code != 101 {
			t.Errorf("%v", err)
		}
	})
}

// TestNothingIsLost: streams that are cut, and posts that are refused, cost a connection, and nothing else.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server, over client.Transport, _ string, e protocol.Encoding) {
		ctx := within(t)
		var network wires
		c := dial(t, over, client.Options{Encoding: e, DialContext: network.dial})
		own := events(t, c.Events(ctx))
		sub, pubs := follow(t, ctx, c)
		if err := sub.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		connected(own)
		last := 0
		publish := func(n int) {
			t.Helper()
			for range n {
				last++
				if _, err := s.node.Publish(ctx, "news", fmt.Appendf(nil, `{"n":%d}`, last), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		lost := func() {
			t.Helper()
			own(func(e client.Event) bool {
				c, ok := e.(client.ConnectingEvent)
				return ok && c.Reason == client.TransportClosed
			})
		}
		for round := range 10 {
			publish(3)
			if round%2 == 0 {
				network.cut()
			} else {
				if err := sub.Ready(ctx); err != nil { // it is the RPC that is refused, not the subscribe command
					t.Fatal(err)
				}
				var once atomic.Bool
				s.refusing(func(r *http.Request) int {
					if r.URL.Path == "/emulation" && once.CompareAndSwap(false, true) {
						return http.StatusBadGateway
					}
					return 0
				})
				if _, err := c.RPC(ctx, "echo", []byte("1")); !errors.Is(err, client.ErrLost) {
					t.Errorf("%v", err)
				}
			}
			publish(2)
			lost()
			connected(own)
		}
		for n := 1; n <= last; n++ {
			p, err, ok := pubs()
			if want := fmt.Sprintf(`{"n":%d}`, n); err != nil || !ok || string(p.Data) != want {
				t.Fatalf("%s %v, want %s", p.Data, err, want)
			}
		}
	})
}

// TestFallback: a network that knows no WebSocket, one that closes it before anything has come, and one that is silent.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"unknown": "http://node.test/none", "closes": "http://mute.test/closes", "silent": "http://mute.test/silent",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fallback(t, first) })
		})
	}
}

func fallback(t *testing.T, first string) {
	hosts := map[string]*fronttest.Pipes{"node.test:80": fronttest.NewPipes(), "mute.test:80": fronttest.NewPipes()}
	silent := serve(hosts["mute.test:80"], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/closes" {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the client stays unnoticed
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	newServerOn(t, hosts["node.test:80"])
	ctx := within(t)
	c := dial(t, httplink.Fallback(nil,
		client.WebSocket(first),
		httplink.Stream(strings.Replace(first, "/silent", "/connection/http_stream", 1), nil),
		httplink.SSE("http://node.test/connection/sse", nil),
	), client.Options{
		Timeout:     5 * time.Second,
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) { return hosts[address].Dial(), nil },
	})
	var failures []client.Event
	own := events(t, c.Events(ctx))
	if err := c.Connect(ctx); err != nil {
		t.Fatal(first, err)
	}
	own(func(e client.Event) bool {
		if _, ok := e.(client.ErrorEvent); ok {
			failures = append(failures, e)
		}
		hello, ok := e.(client.ConnectedEvent)
		if ok && hello.Transport != "sse" {
			t.Errorf("%s: over %q", first, hello.Transport)
		}
		return ok
	})
	if len(failures) > 0 {
		t.Errorf("%s: %v", first, failures)
	}
}

// TestWrong: a wrong setting is refused by its name when the client is made.
func TestWrong(t *testing.T) {
	t.Parallel()
	for want, over := range map[string]client.Transport{
		"scheme":        httplink.Stream("ftp://x", nil),
		"no host":       httplink.SSE("http://", nil),
		"Emulation":     httplink.Stream("http://x", &httplink.Options{Emulation: "x"}),
		"no transports": httplink.Fallback(nil),
		`"ftp"`:         httplink.Fallback(nil, client.WebSocket("ws://x"), httplink.Stream("ftp://x", nil)),
	} {
		if _, err := client.NewOver(over, client.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	sse := httplink.SSE("http://x", nil)
	for _, over := range []client.Transport{sse, httplink.Fallback(nil, sse)} {
		if _, err := client.NewOver(over, client.Options{Encoding: protocol.Protobuf}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v", err)
		}
	}
	if _, err := client.NewOver(httplink.Fallback(nil, sse, client.WebSocket("ws://x")), client.Options{Encoding: protocol.Protobuf}); err != nil {
		t.Error(err)
	}
}

// TestNoEmulation: where commands cannot be posted, log, event and call tell which request the server refuses, and how.
func TestNoEmulation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server, over client.Transport, name string, e protocol.Encoding) {
		s.refusing(func(r *http.Request) int {
			if r.URL.Path == "/emulation" {
				return http.StatusNotFound
			}
			return 0
		})
		var log logtest.Buffer
		c := dial(t, over, client.Options{Encoding: e, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		ctx := within(t)
		next := events(t, c.Events(ctx))
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		const want = "POST /emulation: the server answers with status 404 Not Found"
		if _, err := c.RPC(ctx, "echo", []byte(`1`)); !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
		next(func(e client.Event) bool {
			lost, ok := e.(client.ConnectingEvent)
			return ok && lost.Reason == client.TransportClosed && strings.Contains(lost.Err.Error(), want)
		})
		if !log.Await(func(text string) bool {
			return strings.Contains(text, `msg="the connection is lost" error="1 transport closed: `+want) && strings.Contains(text, "next_attempt_in_ms=")
		}) {
			t.Error(log.String())
		}
		s.refusing(func(r *http.Request) int { return http.StatusServiceUnavailable })
		c.Disconnect()
		connecting, cancel := context.WithCancel(ctx)
		go func() { _ = c.Connect(connecting) }()
		next(func(e client.Event) bool { _, ok := e.(client.ErrorEvent); return ok })
		cancel()
		if !log.Await(func(text string) bool {
			return strings.Contains(text, `msg="an attempt to connect has failed" transport=`+name+` error="2: transport closed: `) && strings.Contains(text, "/connection/"+name+": the server answers with status 503")
		}) || strings.Contains(log.String(), "<nil>") {
			t.Error(log.String())
		}
	})
}

// TestNoSession: a server without emulation is not taken for one that works.
func TestNoSession(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"id":1,"connect":{"client":"c"}}`)
	}))
	t.Cleanup(s.Close)
	c, err := client.NewOver(httplink.Stream(s.URL, nil), client.Options{MinDelay: time.Hour, MaxDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(within(t))
	next, stop := iter.Pull(c.Events(ctx))
	defer stop()
	go func() { _ = c.Connect(ctx) }()
	next()
	if e, _ := next(); !strings.Contains(fmt.Sprint(e), "session") {
		t.Errorf("%+v", e)
	}
	cancel()
}
