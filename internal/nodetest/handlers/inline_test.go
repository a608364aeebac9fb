package handlers

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// A handler that cannot decide inline is called again where it may block.
func TestInlineHandlersMayDecline(t *testing.T) {
	synctest.Test(t, mayDecline)
}

func mayDecline(t *testing.T) {
	var calls []string
	note := func(what string, inline bool) error {
		if inline {
			calls = append(calls, what+" inline")
			return gyro.ErrWouldBlock
		}
		calls = append(calls, what)
		return nil
	}
	node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: gyro.Handlers{
		Connecting: func(ctx context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
			if err := note("connecting "+e.Token, e.Inline); err != nil {
				return gyro.ConnectReply{}, err
			}
			return nodetest.As(ctx, e)
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{}, note("subscribe "+e.Channel, e.Inline)
		},
	}})
	c := nodetest.Connect(t, node, "u")
	synctest.Wait() // until nothing is before it
	c.Subscribe("a", "")
	want := []string{"connecting u inline", "connecting u", "subscribe a inline", "subscribe a"}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// What can be done at once waits for what was asked for before.
func TestInlineHandlersKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		h := g.handlers()
		h.Subscribe = func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.started = append(g.started, e.Channel)
			if !e.Inline {
				g.started = append(g.started, "queue")
			}
			return gyro.SubscribeReply{}, nil
		}
		c := nodetest.Connect(t, nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: h}), "u")
		a, s := call(c, "a"), c.Start(`"subscribe":{"channel":"s"}`)
		g.expect(t, "a")
		g.let("a")
		g.expect(t, "queue", "s")
		c.Await(a)
		c.Await(s)
		c.Subscribe("quick", "")
		g.expect(t, "quick")
	})
}

// A whole frame of commands is answered without the connection being paused.
func TestInlineHandlersAnswerPipelinedCommands(t *testing.T) {
	o := gyro.SubscribeOptions{Presence: true, Recoverable: true, EmitJoinLeave: true, PushJoinLeave: true}
	node := nodetest.Run(t, gyro.Config{InlineHandlers: true, Handlers: nodetest.Everything(o, gyro.PublishOptions{})})
	c := wstest.Pipe(t, node)
	c.Send(`{"id":1,"connect":{"token":"u"}}
{"id":2,"subscribe":{"channel":"a"}}
{"id":3,"subscribe":{"channel":"a"}}
{"id":4,"unsubscribe":{"channel":"a"}}
{"id":5,"subscribe":{"channel":"a"}}
{"id":6,"presence":{"channel":"a"}}`)
	for id := uint32(1); id <= 6; id++ {
		r := c.Await(id)
		if id == 3 {
			if r.Error == nil || r.Error.Code != protocol.ErrorAlreadySubscribed.Code {
				t.Errorf("answer 3 is %+v", r)
			}
		} else if r.Error != nil {
			t.Errorf("answer %d: %v", id, r.Error)
		}
		if id == 6 && len(r.Presence.Presence) != 1 {
			t.Errorf("presence %v", r.Presence.Presence)
		}
	}
}
