package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/transport/websocket"
)

// TestDictionary: messages are compressed against the server's dictionary, which is sent once, and again when it is another.
func TestDictionary(t *testing.T) {
	t.Parallel()
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		ctx := within(t)
		node := gyrotest.NewNode(t, setup())
		serve := func(text string) http.Handler {
			d, err := websocket.NewDictionary(e, "p", false, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return websocket.NewHandler(node, websocket.Config{Dictionaries: []*websocket.Dictionary{d}})
		}
		payload := func(n int) string {
			return fmt.Sprintf(`{"symbol":"XAUUSD","exchange":"OTC","currency":"USD","price":%d}`, n)
		}
		var handler atomic.Pointer[http.Handler]
		use := func(text string) {
			h := serve(text)
			handler.Store(&h)
		}
		use(payload(1))
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*handler.Load()).ServeHTTP(w, r) }))
		t.Cleanup(s.Close)
		c := dial(t, "ws"+strings.TrimPrefix(s.URL, "http"), client.Options{Encoding: e, Dictionary: true, Profile: "p"})
		own := events(t, c.Events(ctx))
		if err := c.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		_, next := subscribe(t, c, "news", nil)
		for round := range 3 { // learned, known, another one
			await[client.ConnectedEvent](t, own)
			for n := range 5 {
				if _, err := node.Publish(ctx, "news", []byte(payload(10*round+n)), nil); err != nil {
					t.Fatal(err)
				}
				if p := await[client.PublicationEvent](t, next); string(p.Data) != payload(10*round+n) {
					t.Fatalf("%s", p.Data)
				}
			}
			if round == 1 {
				use("another " + payload(1))
			}
			if err := node.Users().Disconnect(ctx, gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
