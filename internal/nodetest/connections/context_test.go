package connections

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"weak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

type key struct{}

// Later handlers have the values of the request if its middleware called SetCredentials, or
// those that the Connecting handler chose, and keep nothing else of the request.
func TestValuesOfTheRequest(t *testing.T) {
	who := &gyro.Credentials{UserID: "ann"}
	accept := func(context.Context) gyro.ConnectReply {
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "bob"}}
	}
	for name, tt := range map[string]struct {
		middleware bool // calls SetCredentials
		reply      func(ctx context.Context) gyro.ConnectReply
		value      any
		who        *gyro.Credentials
	}{
		"middleware alone":            {true, nil, "of the request", who},
		"middleware and empty answer": {true, func(context.Context) gyro.ConnectReply { return gyro.ConnectReply{} }, "of the request", who},
		"other credentials":           {true, accept, "of the request", who},
		"other context": {true, func(context.Context) gyro.ConnectReply {
			return gyro.ConnectReply{Context: context.WithValue(context.Background(), key{}, "other")}
		}, "other", nil},
		"no context":     {true, func(context.Context) gyro.ConnectReply { return gyro.ConnectReply{Context: context.Background()} }, nil, nil},
		"handler alone":  {false, accept, nil, nil},
		"handler's wish": {false, func(ctx context.Context) gyro.ConnectReply { r := accept(ctx); r.Context = ctx; return r }, "of the request", nil},
	} {
		t.Run(name, func(t *testing.T) {
			checked := make(chan struct{})
			check := func(ctx context.Context, handler string) {
				if got := ctx.Value(key{}); got != tt.value || gyro.GetCredentials(ctx) != tt.who {
					t.Errorf("%s: value %v of %+v, want %v of %+v", handler, got, gyro.GetCredentials(ctx), tt.value, tt.who)
				}
			}
			h := gyro.Handlers{
				RPC: func(ctx context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
					check(ctx, "RPC")
					check(c.Context(), "Client.Context")
					return nil, nil
				},
				Disconnected: func(ctx context.Context, _ *gyro.Client, _ gyro.DisconnectEvent) {
					check(ctx, "Disconnected")
					close(checked)
				},
			}
			if tt.reply != nil {
				h.Connecting = func(ctx context.Context, _ gyro.ConnectEvent) (gyro.ConnectReply, error) {
					if ctx.Value(key{}) != "of the request" || (gyro.GetCredentials(ctx) == who) != tt.middleware {
						t.Errorf("Connecting: value %v, %+v", ctx.Value(key{}), gyro.GetCredentials(ctx))
					}
					return tt.reply(ctx), nil
				}
			}
			var request weak.Pointer[http.Request]
			address := nodetest.Serve(t, nodetest.Run(t, gyro.Config{Handlers: h}), func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					ctx := context.WithValue(r.Context(), key{}, "of the request")
					if tt.middleware {
						ctx = gyro.SetCredentials(ctx, who)
					}
					r = r.WithContext(ctx)
					request = weak.Make(r)
					next.ServeHTTP(w, r)
				})
			})
			c := wstest.Dial(t, address, nil)
			c.Connect("")
			c.Do(`"rpc":{}`)
			wait.Until(t, "nothing keeps the request", func() bool {
				runtime.GC()
				return request.Value() == nil
			})
			c.Vanish()
			wait.Receive(t, "Disconnected", checked)
		})
	}
}
