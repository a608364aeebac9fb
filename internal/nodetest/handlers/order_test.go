package handlers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
)

// gate is an RPC handler (and what others need of it): calls are noted, and wait
// until they are let through by their method's name.
type gate struct {
	mu      sync.Mutex
	started []string
	open    map[string]chan struct{}
}

func (g *gate) wait(name string) {
	g.mu.Lock()
	g.started = append(g.started, name)
	ch := g.channel(name)
	g.mu.Unlock()
	<-ch
}

func (g *gate) channel(name string) chan struct{} {
	if g.open == nil {
		g.open = make(map[string]chan struct{})
	}
	if g.open[name] == nil {
		g.open[name] = make(chan struct{})
	}
	return g.open[name]
}

// let lets calls of these names through, now or later.
func (g *gate) let(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		close(g.channel(name))
	}
}

// expect checks what has been started since the last time.
func (g *gate) expect(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.started)
	if !slices.Equal(g.started, names) {
		t.Errorf("started %v, want %v", g.started, names)
	}
	g.started = nil
}

func (g *gate) handlers() gyro.Handlers {
	return gyro.Handlers{
		Connecting: nodetest.As,
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			g.wait(e.Channel)
			return gyro.SubscribeReply{}, nil
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			g.wait(e.Method)
			return fmt.Appendf(nil, "%q", e.Method), nil
		},
	}
}

func call(c *wstest.Client, method string) uint32 {
	return c.Start(`"rpc":{"method":"` + method + `"}`)
}

func TestHandlersOfAClientKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{Handlers: g.handlers()}), "u")
		a, s, b := call(c, "a"), c.Start(`"subscribe":{"channel":"s"}`), call(c, "b")
		g.expect(t, "a")
		g.let("b", "s")
		g.expect(t)
		g.let("a")
		g.expect(t, "b", "s")
		for _, id := range []uint32{a, s, b} {
			if r := c.Await(id); r.Error != nil {
				t.Error(r.Error)
			}
		}
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{Concurrency: 3, Handlers: g.handlers()}), "u")
		ids := make(map[string]uint32)
		for _, m := range []string{"a", "b", "c", "d"} {
			ids[m] = call(c, m)
		}
		sub := c.Start(`"subscribe":{"channel":"s"}`)
		ids["e"] = call(c, "e")
		g.expect(t, "a", "b", "c")
		g.let("b")
		g.expect(t, "d")
		if r := c.Await(ids["b"]); string(r.RPC.Data) != `"b"` {
			t.Errorf("got %s", r.RPC.Data)
		}
		// Subscribe is alone: it waits for all before it, and those after wait for it.
		g.let("a", "c")
		g.expect(t)
		g.let("d")
		g.expect(t, "s")
		g.let("s")
		g.expect(t, "e")
		c.Await(sub)
		g.let("e")
		c.Await(ids["e"])
	})
}

func TestBlockingHandlerDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		node := nodetest.Run(t, gyro.Config{Handlers: g.handlers()})
		slow := nodetest.Connect(t, node, "slow")
		id := call(slow, "slow")
		g.expect(t, "slow")
		g.let("fast", "ch")
		for range 100 {
			c := nodetest.Connect(t, node, "fast")
			c.Await(call(c, "fast"))
			c.Vanish()
		}
		// Publications do not wait for it either.
		c := nodetest.Connect(t, node, "fast")
		c.Subscribe("ch", "")
		if err := node.Users().Subscribe(t.Context(), gyro.Target{User: "slow"}, "personal", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Publish(t.Context(), "ch", []byte(`1`), nil); err != nil {
			t.Fatal(err)
		}
		c.Pub()
		g.let("slow")
		slow.Await(id)
		if p := slow.Push(); p.Subscribe == nil || p.Channel != "personal" {
			t.Errorf("got %+v", p)
		}
	})
}

func TestCommandLimitStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		node := nodetest.Run(t, gyro.Config{CommandLimit: 4, Handlers: g.handlers()})
		c := nodetest.Connect(t, node, "u")
		var last uint32
		all := make(chan struct{})
		go func() {
			defer close(all)
			for range 1000 {
				last = call(c, "m")
			}
		}()
		g.expect(t, "m")
		select {
		case <-all:
			t.Error("everything was read although nothing is done")
		default:
		}
		g.let("m")
		<-all
		c.Await(last)
	})
}

func TestSlowClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := nodetest.Run(t, gyro.Config{QueueMaxSize: 10_000, Handlers: gyro.Handlers{
			Connecting: nodetest.As, Subscribe: nodetest.Allow(gyro.SubscribeOptions{}),
		}})
		slow, fast := nodetest.Connect(t, node, "slow"), nodetest.Connect(t, node, "fast")
		slow.Subscribe("ch", "")
		fast.Subscribe("ch", "")
		slow.Stall(true)
		payload := `"` + strings.Repeat("x", 500) + `"`
		for range 3 {
			nodetest.Publish(t, node, "ch", payload)
		}
		slow.Stall(false)
		for range 3 {
			slow.Pub()
			fast.Pub()
		}
		slow.Stall(true)
		for range 20 {
			nodetest.Publish(t, node, "ch", payload)
		}
		if d := slow.Disconnected(); d.Code != 3008 {
			t.Errorf("disconnected with %v", d)
		}
		for range 20 {
			fast.Pub()
		}
	})
}
