package handlers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

// farEngine is one that counts what is published, once a client has gone, by calls
// that have not been given up.
type farEngine struct {
	broker.Broker
	published atomic.Int64
	gone      chan struct{} // nil: it does not wait
}

func (d *farEngine) Publish(ctx context.Context, ch string, p *channel.Publication, o broker.PublishOptions) (broker.PublishResult, error) {
	if d.gone != nil {
		<-d.gone
	}
	if err := ctx.Err(); err != nil {
		return broker.PublishResult{}, err
	}
	d.published.Add(1)
	return d.Broker.Publish(ctx, ch, p, o)
}

// near is one of the process.
type near struct{ *farEngine }

func (near) Describe() broker.Traits { return broker.Traits{Name: "near", Local: true} }

// farewell is what a client sends last.
type farewell struct {
	name, text string
	fresh      bool // it has the connect command
	want       int64
}

const publishing = `{"id":9,"publish":{"channel":"ch","data":{}}}`

var farewells = []farewell{
	{"publish", publishing, false, 1},
	{"rpc", `{"id":2,"rpc":{"method":"m"}}`, false, 1},
	{"send", `{"send":{"data":{}}}`, false, 1},
	{"malformed", publishing + "\nnonsense", false, 1},
	{"many", strings.Repeat(publishing+"\n", 99) + `{"send":{"data":{}}}`, false, 100},
	{"connect", `{"id":1,"connect":{}}` + "\n" + publishing, true, 1},
	{"subscribe", `{"id":2,"subscribe":{"channel":"ch"}}` + "\n" + publishing + "\n" + `{"id":4,"unsubscribe":{"channel":"ch"}}`, false, 1},
}

// What was received before the end of a connection is done, and nothing is left of it.
func TestWhatWasReceivedIsDone(t *testing.T) {
	for _, f := range farewells {
		for _, goroutines := range []bool{false, true} {
			for _, far := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/goroutines=%v/distant=%v", f.name, goroutines, far), func(t *testing.T) {
					for range 20 {
						f.play(t, goroutines, far)
					}
				})
			}
		}
	}
}

func (f *farewell) play(t *testing.T, goroutines, far bool) {
	t.Helper()
	var (
		handled     atomic.Int64
		once        sync.Once
		gone, ended = make(chan struct{}), make(chan struct{})
		engine      = &farEngine{Broker: nodetest.Plain(memory.New(memory.Config{}))}
		cfg         = gyro.Config{GoroutineDriver: goroutines, Broker: engine, Presence: memory.NewPresence(memory.Config{})}
	)
	if f.want == 1 { // else nothing is read until some of it is done
		engine.gone = gone
	}
	if !far {
		cfg.Broker = near{engine}
	}
	watch := func(c *gyro.Client) {
		once.Do(func() {
			go func() {
				<-c.Context().Done()
				close(gone)
			}()
		})
	}
	handle := func(ctx context.Context, c *gyro.Client) error {
		watch(c)
		<-gone
		if ctx.Err() == nil {
			handled.Add(1)
		}
		return ctx.Err()
	}
	h := nodetest.Everything(gyro.SubscribeOptions{Presence: true}, gyro.PublishOptions{})
	h.RPC = func(ctx context.Context, c *gyro.Client, _ gyro.RPCEvent) ([]byte, error) { return nil, handle(ctx, c) }
	h.Message = func(ctx context.Context, c *gyro.Client, _ []byte) error { return handle(ctx, c) }
	h.Publish = func(_ context.Context, c *gyro.Client, _ gyro.PublishEvent) (gyro.PublishReply, error) {
		watch(c)
		return gyro.PublishReply{}, nil
	}
	h.Disconnected = func(context.Context, *gyro.Client, gyro.DisconnectEvent) { close(ended) }
	cfg.Handlers = h
	node := nodetest.Run(t, cfg)
	c := wstest.Dial(t, nodetest.Serve(t, node, nil), nil)
	if !f.fresh {
		c.Connect("")
	}
	c.Last(f.text)
	wait.Receive(t, "Disconnected", ended)
	if n := engine.published.Load() + handled.Load(); n != f.want {
		t.Errorf("%d of %d were done", n, f.want)
	}
	if here, err := node.Presence(context.Background(), "ch"); err != nil || len(here) > 0 {
		t.Errorf("present: %v, %v", here, err)
	}
	nodetest.Must(t, node.Shutdown(context.Background()))
}

// Disconnected comes last, also behind commands that waited in the session when the
// client went, and were let go on by a subscription that was established meanwhile.
func TestDisconnectedComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			mu    sync.Mutex
			calls []string
			let   = make(chan struct{})
		)
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, what)
		}
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		subscribe := h.Subscribe
		h.Subscribe = func(ctx context.Context, c *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			<-let
			return subscribe(ctx, c, e)
		}
		h.RPC = func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			note(e.Method)
			return nil, nil
		}
		h.Unsubscribed = func(context.Context, *gyro.Client, gyro.UnsubscribeEvent) { note("unsubscribed") }
		h.Disconnected = func(context.Context, *gyro.Client, gyro.DisconnectEvent) { note("disconnected") }
		engine := &farEngine{Broker: memory.New(memory.Config{})}
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{CommandLimit: 2, Broker: engine, Handlers: h}), "u")
		c.Send(`{"id":2,"subscribe":{"channel":"ch"}}` + "\n" + `{"id":3,"rpc":{"method":"a"}}` + "\n" + `{"id":4,"rpc":{"method":"b"}}`)
		synctest.Wait()
		c.Vanish()
		synctest.Wait()
		close(let)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"a", "b", "unsubscribed", "disconnected"}; !slices.Equal(calls, want) {
			t.Errorf("called %q, want %q", calls, want)
		}
	})
}
