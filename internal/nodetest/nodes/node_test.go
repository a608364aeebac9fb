package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/memory"
	"github.com/gyrohq/gyro/internal/nodetest"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func TestConfigErrorsNameTheField(t *testing.T) {
	for name, cfg := range map[string]gyro.Config{
		"PongTimeout":      {PongTimeout: time.Minute},
		"ChannelLimit":     {ChannelLimit: -1},
		"ChannelMaxLength": {ChannelMaxLength: -1},
		"QueueMaxSize":     {QueueMaxSize: -1},
		"Concurrency":      {Concurrency: -1},
		"CommandLimit":     {CommandLimit: -1},
	} {
		_, err := gyro.New(cfg)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

func TestRunOnce(t *testing.T) {
	node := nodetest.Run(t, gyro.Config{})
	if err := node.Run(); err == nil {
		t.Error("the second Run succeeded")
	}
}

// slowStart is an engine that connects when it is allowed to.
type slowStart struct {
	*memory.Broker
	allowed chan struct{}
}

func (s *slowStart) Run(h broker.EventHandler) error {
	<-s.allowed
	return s.Broker.Run(h)
}

// A shutdown during the start waits no longer than its context, and ends what the start has begun.
func TestShutdownWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &slowStart{memory.New(memory.Config{}), make(chan struct{})}
		n, err := gyro.New(gyro.Config{Broker: engine})
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error, 1)
		go func() { ran <- n.Run() }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		close(engine.allowed)
		if err := n.Shutdown(t.Context()); err != nil {
			t.Errorf("the second Shutdown: %v", err)
		}
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := n.Publish(t.Context(), "a", []byte(`1`), nil); err == nil {
			t.Error("the engine is not closed")
		}
	})
}

func TestNodeThatDoesNotRun(t *testing.T) {
	node, err := gyro.New(gyro.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	accept := func() {
		t.Helper()
		_, err := wstest.Open(ctx, t, node, protocol.JSON)
		var d protocol.Disconnect
		if !errors.As(err, &d) || d != protocol.DisconnectShutdown {
			t.Errorf("Accept returned %v", err)
		}
	}
	accept()
	if err := node.Users().Disconnect(ctx, gyro.Target{User: "u"}, nil); err != nil {
		t.Error(err)
	}
	if i := nodetest.Info(t, node); i.UID != node.UID() || i.Name != node.UID() {
		t.Errorf("Info returned %+v", i)
	}
	if err := node.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	accept()
	if err := node.Run(); err == nil {
		t.Error("Run succeeded after Shutdown")
	}
}

func TestShutdownDisconnectsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, release := make(chan struct{}), make(chan struct{})
		var ended []string
		node := nodetest.Run(t, gyro.Config{Handlers: gyro.Handlers{
			Connecting: nodetest.As,
			RPC: func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) {
				close(entered)
				<-release
				ended = append(ended, "rpc")
				return nil, nil
			},
			Disconnected: func(_ context.Context, _ *gyro.Client, e gyro.DisconnectEvent) {
				ended = append(ended, e.Disconnect.Reason)
			},
		}})
		c, raw := nodetest.Connect(t, node, "u"), wstest.Pipe(t, node)
		c.Start(`"rpc":{}`)
		<-entered

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := node.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v while a handler runs", err)
		}
		nodetest.WantDisconnect(t, c, protocol.DisconnectShutdown)
		nodetest.WantDisconnect(t, raw, protocol.DisconnectShutdown) // not even connected
		if _, err := wstest.Open(context.Background(), t, node, protocol.JSON); !errors.Is(err, protocol.DisconnectShutdown) {
			t.Errorf("Accept returned %v", err)
		}
		close(release)
		for range 2 {
			if err := node.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if got := strings.Join(ended, " "); got != "rpc shutdown" {
			t.Errorf("handlers ran as %q", got)
		}
		if _, err := node.Publish(context.Background(), "ch", []byte("1"), nil); err == nil {
			t.Error("the broker was not closed")
		}
	})
}
