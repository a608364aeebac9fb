package connections

import (
	"context"
	"net/http"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func TestWebSocketConversation(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{Presence: true, Recoverable: true}, gyro.PublishOptions{})
	address := nodetest.Serve(t, node, nil)
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
	nodetest.WantPub(t, a, `{"text":"héllo"}`)
	nodetest.WantPub(t, b, `{"text":"héllo"}`)
	if n := len(b.Do(`"presence":{"channel":"ch"}`).Presence.Presence); n != 2 {
		t.Errorf("%d are present", n)
	}
	kick := protocol.Disconnect{Code: 4321, Reason: "see you"}
	nodetest.Must(t, node.Users().Disconnect(context.Background(), gyro.Target{User: "u"}, &gyro.DisconnectOptions{Disconnect: &kick}))
	nodetest.WantDisconnect(t, a, kick)
	nodetest.WantDisconnect(t, b, kick)
}

func TestWebSocketMiddlewareAndHeader(t *testing.T) {
	header := make(chan string, 1)
	node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			header <- e.Transport.Header().Get("X-Test")
			return gyro.ConnectReply{}, nil // the credentials of the request
		},
		RPC: func(_ context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
			return []byte(`"` + c.UserID() + `"`), nil
		},
	}})
	address := nodetest.Serve(t, node, func(next http.Handler) http.Handler {
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
	if got := wait.Receive(t, "Connecting", header); got != "yes" {
		t.Errorf("header is %q", got)
	}
}

func TestWebSocketShutdown(t *testing.T) {
	node := nodetest.Open(t, gyro.SubscribeOptions{}, gyro.PublishOptions{})
	address := nodetest.Serve(t, node, nil)
	var clients []*wstest.Client
	for range 20 {
		c := wstest.Dial(t, address, nil)
		c.Connect("")
		c.Subscribe("ch", "")
		clients = append(clients, c)
	}
	nodetest.Must(t, node.Shutdown(context.Background()))
	for _, c := range clients {
		nodetest.WantDisconnect(t, c, protocol.DisconnectShutdown)
	}
	nodetest.WantDisconnect(t, wstest.Dial(t, address, nil), protocol.DisconnectShutdown)
}

func TestWebSocketClientVanishes(t *testing.T) {
	ended := make(chan gyro.DisconnectEvent, 1)
	h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
	h.Disconnected = func(_ context.Context, _ *gyro.Client, e gyro.DisconnectEvent) { ended <- e }
	node := nodetest.Run(t, gyro.Config{Handlers: h})
	c := wstest.Dial(t, nodetest.Serve(t, node, nil), nil)
	c.Connect("")
	c.Subscribe("ch", "")
	c.Vanish()
	if e := wait.Receive(t, "Disconnected", ended); e.Disconnect.Code != protocol.DisconnectConnectionClosed.Code {
		t.Errorf("disconnected with %v", e.Disconnect)
	}
}
