//go:build !race

package costs

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/transport/websocket"
)

// What the values of a request's context cost a connection, for a program that calls SetCredentials
// in its middleware, and what they do not cost one that does not. net/http serves both.
func TestBytesOfRequestContextBudget(t *testing.T) {
	const n, budget = 500, 700
	perClient := func(name string, credentials func(context.Context) context.Context) (got int64) {
		t.Run(name, func(t *testing.T) { // with the clients' end at its end
			alone(t)
			node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: gyro.Handlers{
				Connecting: func(ctx context.Context, _ gyro.ConnectEvent) (gyro.ConnectReply, error) {
					return gyro.ConnectReply{Credentials: cmp.Or(gyro.GetCredentials(ctx), &gyro.Credentials{UserID: "u"})}, nil
				},
			}})
			h := websocket.NewHandler(node, websocket.Config{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(credentials(r.Context())))
			}))
			t.Cleanup(server.Close)
			clients := make([]*wstest.Client, n)
			got = bytesEach(t, n, func() {
				for i := range clients {
					clients[i] = wstest.Dial(t, server.URL, nil)
					clients[i].Connect("")
				}
			})
			runtime.KeepAlive(clients)
		})
		return got
	}
	who := &gyro.Credentials{UserID: "u"}
	plain := func(ctx context.Context) context.Context { return context.WithValue(ctx, pathKey{}, who) }
	perClient("pools", plain) // fills them
	none := perClient("none", plain)
	kept := perClient("kept", func(ctx context.Context) context.Context { return gyro.SetCredentials(ctx, who) })
	t.Logf("%d bytes per connection and its client in the test, %d with a context of the request", none, kept)
	if kept-none > budget {
		t.Errorf("the context of a request costs %d bytes, budget %d", kept-none, budget)
	}
}

type pathKey struct{}
