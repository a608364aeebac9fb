package gyro_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
)

// serve offers the node at a WebSocket address.
func serve(tb testing.TB, node *gyro.Node, wrap func(http.Handler) http.Handler) string {
	tb.Helper()
	var h http.Handler = websocket.NewHandler(node, websocket.Config{})
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s.URL
}

func TestWebSocketConversation(t *testing.T) {
	node := open(t, gyro.SubscribeOptions{Presence: true, Recoverable: true}, gyro.PublishOptions{})
	address := serve(t, node, nil)
	a := wstest.Dial(t, address, nil)
	b := wstest.Dial(t, address+"?cf_protocol=protobuf", nil)
	for _, c := range []*wstest.Client{a, b} {
		// Everything in one frame, as the SDKs do it.
		c.Send(`{"id":101,"connect":{"token":"u"}}` + "\n" + `{"id":102,"subscribe":{"channel":"ch"}}`)
		if r := c.Await(101); r.Connect == nil {
			t.Fatalf("got %+v", r)
		}
		if r := c.Await(102); r.Subscribe == nil {
			t.Fatalf("got %+v", r)
		}
	}
	a.Do(`"publish":{"channel":"ch","data":{"text":"héllo"}}`)
	wantPub(t, a, `{"text":"héllo"}`)
	wantPub(t, b, `{"text":"héllo"}`)
	if n := len(b.Do(`"presence":{"channel":"ch"}`).Presence.Presence); n != 2 {
		t.Errorf("%d are present", n)
	}
	kick := protocol.Disconnect{Code: 4321, Reason: "see you"}
	must(t, node.Disconnect(context.Background(), gyro.Target{User: "u"}, &gyro.DisconnectOptions{Disconnect: &kick}))
	wantDisconnect(t, a, kick)
	wantDisconnect(t, b, kick)
}

func TestWebSocketMiddlewareAndHeader(t *testing.T) {
	header := make(chan string, 1)
	node := run(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			header <- e.Transport.Header().Get("X-Test")
			return gyro.ConnectReply{}, nil // the credentials of the request
		},
		RPC: func(_ context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
			return []byte(`"` + c.UserID() + `"`), nil
		},
	}})
	address := serve(t, node, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := gyro.SetCredentials(r.Context(), &gyro.Credentials{UserID: "by middleware"})
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	})
	c := wstest.Dial(t, address, http.Header{"X-Test": {"yes"}})
	c.Connect("")
	if got := c.Do(`"rpc":{"method":"who"}`).RPC.Data; string(got) != `"by middleware"` {
		t.Errorf("user is %s", got)
	}
	if got := <-header; got != "yes" {
		t.Errorf("header is %q", got)
	}
}

func TestWebSocketShutdown(t *testing.T) {
	node := open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	address := serve(t, node, nil)
	var clients []*wstest.Client
	for range 20 {
		c := wstest.Dial(t, address, nil)
		c.Connect("")
		c.Subscribe("ch", "")
		clients = append(clients, c)
	}
	must(t, node.Shutdown(context.Background()))
	for _, c := range clients {
		wantDisconnect(t, c, protocol.DisconnectShutdown)
	}
	wantDisconnect(t, wstest.Dial(t, address, nil), protocol.DisconnectShutdown)
}

func TestWebSocketClientVanishes(t *testing.T) {
	ended := make(chan gyro.DisconnectEvent, 1)
	h := everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
	h.Disconnected = func(_ context.Context, _ *gyro.Client, e gyro.DisconnectEvent) { ended <- e }
	node := run(t, gyro.Config{Handlers: h})
	c := wstest.Dial(t, serve(t, node, nil), nil)
	c.Connect("")
	c.Subscribe("ch", "")
	c.Vanish()
	if e := <-ended; e.Disconnect.Code != protocol.DisconnectConnectionClosed.Code {
		t.Errorf("disconnected with %v", e.Disconnect)
	}
}
