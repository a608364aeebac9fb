package engines

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/bustest"
)

// backend is an engine over a network, with a presence manager that all of its nodes share.
type backend struct {
	broker   described
	presence *memory.Presence
}

func (b backend) Broker() broker.Broker {
	if b.broker.Broker == nil {
		return nil
	}
	return b.broker
}

// described is a broker with traits of its own.
type described struct {
	broker.Broker
	traits broker.Traits
}

func (d described) Describe() broker.Traits { return d.traits }

// newBackend returns an engine on a bus. Its traits offer what parts name.
func newBackend(bus *bustest.Bus, parts string) backend {
	e := bus.Engine()
	b := backend{described{e, broker.Traits{Name: "backend", History: true}}, memory.NewPresence(memory.Config{})}
	if strings.Contains(parts, "presence") {
		b.broker.traits.Presence = b.presence
	}
	if strings.Contains(parts, "control") {
		b.broker.traits.Control = e
	}
	return b
}

// A node takes what its Config has, and the rest from the engine.
func TestEngine(t *testing.T) {
	somebody := &channel.ClientInfo{Client: "c", User: "u"}
	for name, tt := range map[string]struct {
		config   func(b, other backend) gyro.Config
		on       string // whose broker it is: "backend", "other"
		presence string // whose presence manager it is
		cluster  bool
	}{
		"engine":           {func(b, _ backend) gyro.Config { return gyro.Config{Engine: b} }, "backend", "backend", true},
		"broker":           {func(b, _ backend) gyro.Config { return gyro.Config{Broker: b.Broker()} }, "backend", "backend", true},
		"engine, broker":   {func(b, o backend) gyro.Config { return gyro.Config{Engine: o, Broker: b.Broker()} }, "backend", "other", true},
		"engine, presence": {func(b, o backend) gyro.Config { return gyro.Config{Engine: b, Presence: o.presence} }, "backend", "other", true},
		"broker, presence": {func(b, o backend) gyro.Config { return gyro.Config{Broker: b.Broker(), Presence: o.presence} }, "backend", "other", true},
		"engine, control":  {func(b, o backend) gyro.Config { return gyro.Config{Engine: b, Controller: o.broker.traits.Control} }, "backend", "backend", false},
		"memory":           {func(backend, backend) gyro.Config { return gyro.Config{Engine: memory.New(memory.Config{})} }, "", "", false},
		"broker of memory": {func(backend, backend) gyro.Config { return gyro.Config{Broker: memory.New(memory.Config{})} }, "", "", false},
		"nothing":          {func(backend, backend) gyro.Config { return gyro.Config{} }, "", "", false},
		"local, no control": {func(backend, backend) gyro.Config {
			return gyro.Config{Broker: described{memory.New(memory.Config{}), broker.Traits{Name: "near", Local: true}}}
		}, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bus, otherBus := bustest.New(t), bustest.New(t)
				b, other := newBackend(bus, "presence control"), newBackend(otherBus, "presence control")
				nodetest.Must(t, b.presence.Add(t.Context(), "backend", somebody))
				nodetest.Must(t, other.presence.Add(t.Context(), "other", somebody))
				cfg := tt.config(b, other)
				cfg.Handlers = nodetest.Everything(gyro.SubscribeOptions{Presence: true}, gyro.PublishOptions{})
				node := nodetest.Run(t, cfg)
				// A second node on the same bus makes a cluster, if the controller is that of the bus.
				nodetest.Run(t, gyro.Config{Engine: newBackend(bus, "presence control")})
				synctest.Wait()
				nodetest.Connect(t, node, "me").Subscribe("ch", "")
				for of, bus := range map[string]*bustest.Bus{"backend": bus, "other": otherBus} {
					if n := bus.Subscribed("ch"); (n == 1) != (tt.on == of) {
						t.Errorf("%d subscriptions on %s", n, of)
					}
				}
				for _, ch := range []string{"backend", "other"} {
					stats, err := node.PresenceStats(t.Context(), ch)
					if err != nil || (stats.Clients == 1) != (tt.presence == ch) {
						t.Errorf("presence of %s: %+v, %v", ch, stats, err)
					}
				}
				if stats, err := node.PresenceStats(t.Context(), "ch"); err != nil || stats.Clients != 1 {
					t.Errorf("own presence: %+v, %v", stats, err)
				}
				if infos, err := node.Cluster().Nodes(t.Context()); err != nil || (len(infos) == 2) != tt.cluster {
					t.Errorf("%d nodes, %v", len(infos), err)
				}
				nodetest.Must(t, node.Shutdown(t.Context())) // before run looks, which expects one node
			})
		})
	}
}

// What contradicts itself is an error that names the fields.
func TestEngineContradictions(t *testing.T) {
	bus := bustest.New(t)
	whole, bare := newBackend(bus, "presence"), newBackend(bus, "")
	for want, cfg := range map[string]gyro.Config{
		"gyro: Engine (engines.backend) is not used, as Broker and Presence are set: ":                          {Engine: whole, Broker: bare.Broker(), Presence: bare.presence},
		"gyro: Engine (engines.backend) is not used, as Broker is set and the engine has no presence manager: ": {Engine: bare, Broker: whole.Broker()},
		"gyro: Engine (engines.backend) has no broker":                                                          {Engine: backend{}},
		"gyro: Engine (engines.backend) has no broker\ngyro: ChannelLimit (-1) must be at least 1":              {Engine: backend{}, ChannelLimit: -1},
	} {
		if _, err := gyro.New(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// On a broker over a network, presence is never silently that of the node alone.
func TestPresenceThatIsAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := nodetest.Everything(gyro.SubscribeOptions{}, gyro.PublishOptions{})
		h.Subscribe = func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Presence: e.Channel == "present"}}, nil
		}
		node := nodetest.Run(t, gyro.Config{Engine: newBackend(bustest.New(t), ""), Handlers: h, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := nodetest.Connect(t, node, "u")
		c.Subscribe("plain", "")
		for _, command := range []string{`"subscribe":{"channel":"present"}`, `"presence":{"channel":"plain"}`, `"presence_stats":{"channel":"plain"}`} {
			if got, _ := c.Outcome(command); got != "error 108" {
				t.Errorf("%s: %s", command, got)
			}
		}
		if _, err := node.Presence(t.Context(), "plain"); err == nil || !strings.Contains(err.Error(), "the node has no presence manager") {
			t.Error(err)
		}
		nodetest.Must(t, node.Shutdown(t.Context()))
		for _, kind := range []string{"subscribe refused", "presence refused", "presence stats refused"} {
			found := false
			for line := range strings.Lines(log.String()) {
				found = found || strings.Contains(line, kind) && strings.Contains(line, `reason="the node has no presence manager: its broker's engine offers none; memory.NewPresence is one for a single node" key=Config.Presence`)
			}
			if !found {
				t.Errorf("no line %q with the reason in\n%s", kind, log.String())
			}
		}
	})
}
