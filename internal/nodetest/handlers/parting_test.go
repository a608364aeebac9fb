package handlers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// stay waits until a context ends, and returns for how long; "ended" if that was before.
func stay(ctx context.Context) string {
	if ctx.Err() != nil {
		return "ended"
	}
	began := time.Now()
	<-ctx.Done()
	return time.Since(began).String()
}

// Unsubscribed and Disconnected have time for what they do, however a node ends.
func TestContextOfEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		slow     []string      // the handlers that wait for the end of their context
		patience time.Duration // of Shutdown
		want     map[string]string
	}{
		"a command waits":          {[]string{"RPC"}, time.Hour, map[string]string{"RPC": "5s"}},
		"an end waits":             {[]string{"Disconnected"}, time.Hour, map[string]string{"Disconnected": "10s"}},
		"all wait":                 {[]string{"RPC", "Unsubscribed", "Disconnected"}, time.Hour, map[string]string{"RPC": "5s", "Unsubscribed": "5s", "Disconnected": "5s"}},
		"a context that has ended": {[]string{"RPC", "Unsubscribed", "Disconnected"}, 0, map[string]string{"RPC": "0s", "Unsubscribed": "5s", "Disconnected": "5s"}},
		"a context that ends":      {[]string{"Disconnected"}, time.Second, map[string]string{"Disconnected": "6s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(map[string]string)
				called := func(ctx context.Context, handler string) {
					if ctx.Err() != nil || ctx.Value(key{}) != "of the request" {
						t.Errorf("%s: %v, value %v", handler, ctx.Err(), ctx.Value(key{}))
					}
					if slices.Contains(tt.slow, handler) {
						got[handler] = stay(ctx)
					}
				}
				h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
				h.Connecting = func(ctx context.Context, _ gyro.ConnectEvent) (gyro.ConnectReply, error) {
					return gyro.ConnectReply{Credentials: &gyro.Credentials{}, Context: ctx}, nil
				}
				h.RPC = func(ctx context.Context, _ *gyro.Client, _ gyro.RPCEvent) ([]byte, error) {
					called(ctx, "RPC")
					return nil, nil
				}
				h.Unsubscribed = func(ctx context.Context, _ *gyro.Client, _ gyro.UnsubscribeEvent) { called(ctx, "Unsubscribed") }
				h.Disconnected = func(ctx context.Context, c *gyro.Client, _ gyro.DisconnectEvent) {
					if c.Context().Err() == nil {
						t.Error("the context of the client has not ended")
					}
					called(ctx, "Disconnected")
				}
				node := nodetest.Run(t, gyro.Config{Handlers: h})
				c, err := wstest.Open(context.WithValue(t.Context(), key{}, "of the request"), t, node, protocol.JSON)
				nodetest.Must(t, err)
				c.Connect("")
				c.Subscribe("ch", "")
				c.Start(`"rpc":{}`)
				synctest.Wait() // until the handler waits, too
				ctx, cancel := context.WithTimeout(t.Context(), tt.patience)
				defer cancel()
				_ = node.Shutdown(ctx)
				nodetest.Must(t, node.Shutdown(t.Context()))
				if !maps.Equal(got, tt.want) {
					t.Errorf("handlers had %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// While the node runs, a client that goes takes no time from its handlers.
func TestContextOfEndsWithoutShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, ended := make(chan struct{}), make(chan string, 2)
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Unsubscribed = func(ctx context.Context, _ *gyro.Client, _ gyro.UnsubscribeEvent) {
			<-release
			ended <- fmt.Sprint("unsubscribed ", ctx.Err())
		}
		h.Disconnected = func(ctx context.Context, _ *gyro.Client, _ gyro.DisconnectEvent) {
			ended <- fmt.Sprint("disconnected ", ctx.Err())
		}
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{Handlers: h}), "u")
		c.Subscribe("ch", "")
		c.Vanish()
		time.Sleep(time.Hour)
		close(release)
		if a, b := <-ended, <-ended; a != "unsubscribed <nil>" || b != "disconnected <nil>" {
			t.Errorf("%s, %s", a, b)
		}
	})
}
