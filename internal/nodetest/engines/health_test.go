package engines

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/beat"
	"github.com/gyrohq/gyro/internal/nodetest"
)

// ailing is an engine that reports what a test wants.
type ailing struct {
	broker.Broker
	broker.PresenceManager
	parts []broker.Health
}

func (a *ailing) Describe() broker.Traits {
	return broker.Traits{Name: "ailing", Health: func() []broker.Health { return a.parts }}
}

// listed is an ailing presence manager whose value cannot be compared.
type listed struct {
	broker.PresenceManager
	parts []broker.Health
}

func (l listed) Describe() broker.Traits {
	return broker.Traits{Name: "listed", Health: func() []broker.Health { return l.parts }}
}

func TestHealthOfEngines(t *testing.T) {
	down := errors.New("no canary for 3s")
	a := &ailing{
		Broker: memory.New(memory.Config{}), PresenceManager: memory.NewPresence(memory.Config{}),
		parts: []broker.Health{{Part: "shard 0", Delay: time.Millisecond}, {Part: "shard 1", Err: down}},
	}
	for name, cfg := range map[string]gyro.Config{
		"node, shard 0, shard 1":      {Broker: a, Presence: a}, // once
		"node":                        {},
		"node, shard 0, shard 1, map": {Broker: a, Presence: listed{a.PresenceManager, []broker.Health{{Part: "map"}}}},
	} {
		node, err := gyro.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, h := range node.Health() {
			parts = append(parts, h.Part)
			if h.Part == "shard 1" && !errors.Is(h.Err, down) {
				t.Errorf("%s: %v", h.Part, h.Err)
			}
		}
		if got := strings.Join(parts, ", "); got != name {
			t.Errorf("parts %s, want %s", got, name)
		}
	}
}

func TestHealthOfNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block, entered := make(chan struct{}), make(chan struct{})
		node, err := gyro.New(gyro.Config{InlineHandlers: true, Logger: slog.New(slog.DiscardHandler), Handlers: gyro.Handlers{
			Connecting: nodetest.As,
			Subscribe: func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
				close(entered)
				<-block // what a handler must not do
				return gyro.SubscribeReply{}, nil
			},
		}})
		nodetest.Must(t, err)
		health := func(want string) {
			t.Helper()
			synctest.Wait()
			h := node.Health()
			if len(h) != 1 || h[0].Part != "node" {
				t.Fatalf("%+v", h)
			}
			if err := h[0].Err; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got error %v, want %q", h[0].Delay, err, want)
			}
		}
		health("does not run")
		nodetest.Must(t, node.Run())
		health("")
		c := nodetest.Connect(t, node, "u")
		time.Sleep(time.Minute)
		time.Sleep(beat.Until(time.Second)) // on which the canaries are sent
		health("")
		c.Start(`"subscribe":{"channel":"ch"}`)
		<-entered
		time.Sleep(4 * time.Second)
		health("") // the canary was sent up to a second later
		time.Sleep(time.Second)
		health("has not come round for 4")
		if d := node.Health()[0].Delay; d < 4*time.Second {
			t.Errorf("the delay is %v", d)
		}
		close(block)
		time.Sleep(2 * time.Second)
		health("")
		nodetest.Must(t, node.Shutdown(t.Context()))
		health("shutting down")
	})
}
