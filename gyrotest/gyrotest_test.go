package gyrotest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/internal/testkit/wstest/frametest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExamples(t *testing.T) {
	t.Run("News", testNews)
	t.Run("Expiry", testExpiry)
}

// everything lets everybody do everything, with history.
func everything() gyro.Config {
	return gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}, Data: e.Data}, nil
		},
		Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{
				Presence: true, EmitJoinLeave: true, PushJoinLeave: true, Recoverable: true,
			}}, nil
		},
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{Options: gyro.PublishOptions{HistorySize: 10, HistoryTTL: time.Minute}}, nil
		},
		Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
			return gyro.PresenceReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, nil
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			return json.Marshal(e.Method + string(e.Data))
		},
		Message: func(_ context.Context, c *gyro.Client, data []byte) error {
			c.Send(data)
			return nil
		},
	}}
}

// each runs a test with clients in both encodings, by WebSocket and in memory.
func each(t *testing.T, test func(t *testing.T, node *gyro.Node, open func() *gyrotest.Client)) {
	for name, encoding := range map[string]protocol.Encoding{"JSON": protocol.JSON, "Protobuf": protocol.Protobuf} {
		o := &gyrotest.Options{Encoding: encoding}
		t.Run(name+" by WebSocket", func(t *testing.T) {
			s := gyrotest.NewServer(t, everything())
			test(t, s.Node, func() *gyrotest.Client { return gyrotest.Dial(t, s.URL, o) })
		})
		t.Run(name+" in memory", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := gyrotest.NewNode(t, everything())
				test(t, node, func() *gyrotest.Client { return gyrotest.Open(t, node, o) })
			})
		})
	}
}

func TestCommands(t *testing.T) {
	each(t, func(t *testing.T, _ *gyro.Node, open func() *gyrotest.Client) {
		ann, bob := open(), open()
		if r := ann.Connect(&protocol.ConnectRequest{Token: "ann", Data: []byte(`{"a":1}`)}); string(r.Data) != `{"a":1}` || r.Client == "" {
			t.Errorf("connected with %+v", r)
		}
		bob.Connect(&protocol.ConnectRequest{Token: "bob"})
		at := ann.Subscribe("room", nil)
		if who := ann.Join("room"); who.User != "ann" {
			t.Errorf("%v joined", who)
		}
		bob.Subscribe("room", nil)
		ann.Subscribe("other", nil)
		ann.Publish("other", `"first"`)
		bob.Publish("room", `"second"`)

		// Each waits for what it names; the order of the others stays.
		if p := ann.Publication("room"); string(p.Data) != `"second"` || p.Info.User != "bob" {
			t.Errorf("got %+v", p)
		}
		if who := ann.Join("room"); who.User != "bob" {
			t.Errorf("%v joined", who)
		}
		if p := ann.Push(); p.Channel != "other" || p.Join == nil {
			t.Errorf("got %+v", p)
		}
		if p := ann.Publication("other"); string(p.Data) != `"first"` {
			t.Errorf("got %s", p.Data)
		}
		if here := bob.Presence("room"); len(here) != 2 {
			t.Errorf("present: %v", here)
		}
		if h := bob.History("room", &protocol.HistoryRequest{Limit: 5}); len(h.Publications) != 1 || h.Offset != 1 {
			t.Errorf("history: %+v", h)
		}
		if answer := bob.RPC("method", `{"b":2}`); string(answer) != `"method{\"b\":2}"` {
			t.Errorf("answer: %s", answer)
		}
		bob.Pushes()
		bob.Message(`"echo"`)
		if p := bob.Push(); p.Message == nil || string(p.Message.Data) != `"echo"` {
			t.Errorf("got %+v", p)
		}
		ids := []uint32{bob.Start(rpc("1")), bob.Start(rpc("2"))}
		for i, id := range []uint32{ids[1], ids[0]} {
			if r, err := bob.Await(id); err != nil || string(r.RPC.Data) != fmt.Sprintf(`"%d"`, 2-i) {
				t.Errorf("got %+v, %v", r, err)
			}
		}

		// A client that comes back recovers.
		bob.Unsubscribe("room")
		if who := ann.Leave("room"); who.User != "bob" {
			t.Errorf("%v left", who)
		}
		ann.Vanish()
		if d := ann.Disconnected(); d.Code != 0 {
			t.Errorf("disconnected with %v", d)
		}
		again := open()
		again.Connect(nil)
		r := again.Subscribe("room", &protocol.SubscribeRequest{Recover: true, Epoch: at.Epoch, Offset: at.Offset})
		if !r.Recovered || len(r.Publications) != 1 {
			t.Errorf("recovered %+v", r)
		}
	})
}

func rpc(method string) *protocol.Command {
	return &protocol.Command{RPC: &protocol.RPCRequest{Method: method}}
}

func TestDisconnected(t *testing.T) {
	each(t, func(t *testing.T, node *gyro.Node, open func() *gyrotest.Client) {
		c := open()
		c.Connect(&protocol.ConnectRequest{Token: "ann"})
		bye := gyro.Disconnect{Code: 4500, Reason: "bye"}
		if err := node.Users().Disconnect(t.Context(), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &bye}); err != nil {
			t.Fatal(err)
		}
		if d := c.Disconnected(); d != bye {
			t.Errorf("got %v", d)
		}
		invalid := open()
		invalid.Raw([]byte("\x01nonsense"))
		if d := invalid.Disconnected(); d != protocol.DisconnectBadRequest {
			t.Errorf("got %v", d)
		}
		if err := node.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := open().Disconnected(); d != protocol.DisconnectShutdown {
			t.Errorf("got %v", d)
		}
	})
}

// Pings are answered, until the client is mute.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := gyrotest.Open(t, gyrotest.NewNode(t, everything()), nil)
		c.Connect(nil)
		time.Sleep(time.Hour)
		c.RPC("here", "")
		c.Mute()
		time.Sleep(time.Hour)
		if d := c.Disconnected(); d != protocol.DisconnectNoPong {
			t.Errorf("got %v", d)
		}
	})
}

// A client that takes nothing is too slow in the end; one that takes bytes again gets them all.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := everything()
		cfg.QueueMaxSize = 1 << 10
		node := gyrotest.NewNode(t, cfg)
		var clients [2]*gyrotest.Client
		for i := range clients {
			clients[i] = gyrotest.Open(t, node, nil)
			clients[i].Connect(nil)
			clients[i].Subscribe("room", nil)
			synctest.Wait()
			clients[i].Pushes()
			clients[i].Stall(true)
		}
		publish := func(n int) {
			if _, err := node.Publish(t.Context(), "room", fmt.Appendf(nil, `"%s"`, strings.Repeat("x", n)), nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		publish(100)
		if got := clients[0].Pushes(); len(got) > 0 {
			t.Errorf("got %+v", got)
		}
		clients[0].Stall(false)
		clients[0].Publication("room")
		publish(950)
		if d := clients[1].Disconnected(); d != protocol.DisconnectSlow {
			t.Errorf("got %v", d)
		}
		clients[0].Publication("room")
	})
}

// Middleware of a program sees the header; what it refuses is told.
func TestHandshake(t *testing.T) {
	node := gyrotest.NewNode(t, gyro.Config{})
	sockets := websocket.NewHandler(node, websocket.Config{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("session")
		if err != nil {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		sockets.ServeHTTP(w, r.WithContext(gyro.SetCredentials(r.Context(), &gyro.Credentials{UserID: c.Value})))
	}))
	t.Cleanup(s.Close)
	if c, status, body := gyrotest.Handshake(t, s.URL, nil); c != nil || status != http.StatusUnauthorized || body != "log in first\n" {
		t.Errorf("%d %q", status, body)
	}
	var dialed string
	c := gyrotest.Dial(t, s.URL, &gyrotest.Options{Header: http.Header{"Cookie": {"session=ann"}}})
	c.Connect(nil)
	if n := node.NumClients(); n != 1 {
		t.Errorf("%d clients", n)
	}
	plain := httptest.NewServer(sockets)
	t.Cleanup(plain.Close)
	o := &gyrotest.Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = address
		return new(net.Dialer).DialContext(ctx, network, plain.Listener.Addr().String())
	}}
	gyrotest.Dial(t, "ws://chat.example/ws", o)
	if dialed != "chat.example:80" {
		t.Errorf("dialed %s", dialed)
	}
	ctx := gyro.SetCredentials(t.Context(), &gyro.Credentials{UserID: "bob"})
	gyrotest.Open(t, node, &gyrotest.Options{Context: ctx}).Connect(nil)
}

// failing is a test that fails: its failure is kept, and ends its goroutine.
type failing struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (f *failing) Helper() {}
func (f *failing) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}
func (f *failing) Error(args ...any) { f.Errorf("%s", fmt.Sprint(args...)) }
func (f *failing) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }
func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	panic(f)
}
func (f *failing) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }

// run runs a test to its end, and returns what it failed with.
func (f *failing) run(test func(testing.TB)) string {
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		test(f)
	}()
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
	return strings.Join(f.failures, "\n")
}

// TestFailures: what is expected and does not come fails the test in time, with what came.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		test func(c *gyrotest.Client)
		want []string
	}{
		"nothing comes": {
			func(c *gyrotest.Client) { c.Push() },
			[]string{"a push did not come within 10s", "nothing else came"},
		},
		"another push": {
			func(c *gyrotest.Client) { c.Subscribe("room", nil); c.Publication("room") },
			[]string{"a publication in room did not come within 10s", `{"push":{"channel":"room","join":{"info":{"user":"ann"`},
		},
		"many pushes": {
			func(c *gyrotest.Client) {
				for range 12 {
					c.Message(`"x"`)
				}
				c.Leave("room")
			},
			[]string{"a leave in room did not come", `{"push":{"message":{"data":"x"}}}`, "and 2 more"},
		},
		"an error": {
			func(c *gyrotest.Client) { c.Subscribe("room", nil); c.Subscribe("room", nil) },
			[]string{`{"subscribe":{"channel":"room"}}`, "105: already subscribed"},
		},
		"the end": {
			func(c *gyrotest.Client) { c.Raw([]byte("nonsense")); c.Push() },
			[]string{"the connection has ended (3501 bad request) before a push came"},
		},
		"no end": {
			func(c *gyrotest.Client) { c.Disconnected() },
			[]string{"the end of the connection did not come within 10s"},
		},
		"a reply to nothing": {
			func(c *gyrotest.Client) { _, _ = c.Await(77) },
			[]string{"the reply to command 77 did not come"},
		},
		"no JSON": {
			func(c *gyrotest.Client) { c.Publish("room", "no JSON") },
			[]string{`Publish:{Channel:"room" Data:"no JSON"}`, "not valid JSON"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := gyrotest.NewNode(t, everything())
				got := (&failing{TB: t}).run(func(tb testing.TB) {
					c := gyrotest.Open(tb, node, nil)
					c.Connect(&protocol.ConnectRequest{Token: "ann"})
					tt.test(c)
				})
				for _, part := range tt.want {
					if !strings.Contains(got, part) {
						t.Errorf("the test fails with %q, want %q", got, part)
					}
				}
			})
		})
	}
}

// A server that breaks the protocol fails the test, even one that waits for nothing.
func TestBrokenServer(t *testing.T) {
	for name, tt := range map[string]struct{ sends, want string }{
		"reserved bits": {string(frametest.Unmasked(frametest.Frame{Fin: true, RSV1: true, Op: frametest.OpText})), "a frame with an invalid header"},
		"too large":     {"\x81\x7f\x00\x00\x00\xff\x00\x00\x00\x00", "a message that is larger than the limit"},
		"no reply":      {string(frametest.Unmasked(frametest.Text("nonsense"))), `sent "nonsense"`},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			got := (&failing{TB: t}).run(func(tb testing.TB) {
				c := gyrotest.Over(tb, ours, nil)
				go func() { _, _ = theirs.Write([]byte(tt.sends)) }()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				c.Disconnected()
			})
			if !strings.Contains(got, tt.want) {
				t.Errorf("the test fails with %q, want %q", got, tt.want)
			}
		})
	}
}

// Messages may come in fragments, and with pings between them.
func TestFragments(t *testing.T) {
	ours, theirs := net.Pipe()
	c := gyrotest.Over(t, ours, nil)
	go func() {
		for _, f := range []frametest.Frame{
			{Op: frametest.OpText, Payload: `{"push":{"channel":"a",`},
			{Fin: true, Op: frametest.OpPing, Payload: "ping"},
			{Fin: true, Payload: `"pub":{"data":1}}}`},
		} {
			_, _ = theirs.Write(frametest.Unmasked(f))
		}
	}()
	pong := make([]byte, len(frametest.Masked(frametest.Frame{Payload: "ping"})))
	if _, err := theirs.Read(pong); err != nil || pong[0] != 0x80|frametest.OpPong {
		t.Errorf("answered % x, %v", pong, err)
	}
	if p := c.Publication("a"); string(p.Data) != "1" {
		t.Errorf("got %s", p.Data)
	}
	theirs.Close()
}

// The log goes to the test, unless the program has a logger.
func TestLog(t *testing.T) {
	var out strings.Builder
	tb := &logged{failing: failing{TB: t}, out: &out}
	if got := tb.run(func(testing.TB) {
		c := gyrotest.Open(tb, gyrotest.NewNode(tb, gyro.Config{}), nil)
		_, _ = c.Try(&protocol.Command{Connect: new(protocol.ConnectRequest)})
		c.Disconnected()
	}); got != "" {
		t.Fatal(got)
	}
	if !strings.Contains(out.String(), "3501") {
		t.Errorf("the log is %q", out.String())
	}
}

// logged is a test whose output is kept.
type logged struct {
	failing
	out *strings.Builder
}

func (l *logged) Output() io.Writer { return l.out }
