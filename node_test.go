package gyro_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/internal/wstest"
	"github.com/gyrohq/gyro/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts a node that is shut down, and found empty, when the test ends.
func run(tb testing.TB, cfg gyro.Config) *gyro.Node {
	tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(tb.Output(), nil))
	}
	node, err := gyro.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	if err := node.Run(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			tb.Errorf("Shutdown: %v", err)
		}
		if i := info(tb, node); i.NumClients != 0 || i.NumUsers != 0 || i.NumChannels != 0 {
			tb.Errorf("after the shutdown there are %+v", i)
		}
	})
	return node
}

func info(tb testing.TB, n *gyro.Node) gyro.NodeInfo {
	tb.Helper()
	infos, err := n.Info(context.Background())
	if err != nil || len(infos) != 1 {
		tb.Fatalf("Info: %v, %v", infos, err)
	}
	return infos[0]
}

// as accepts every client as the user that its token names.
func as(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}}, nil
}

// allow accepts subscriptions with these options.
func allow(o gyro.SubscribeOptions) func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	return func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		return gyro.SubscribeReply{Options: o}, nil
	}
}

// connect opens a connection of a user.
func connect(tb testing.TB, n *gyro.Node, user string) *wstest.Client {
	tb.Helper()
	c := wstest.Pipe(tb, n)
	c.Connect(`"token":"` + user + `"`)
	return c
}

func wantDisconnect(tb testing.TB, c *wstest.Client, want protocol.Disconnect) {
	tb.Helper()
	if got := c.Disconnected(); got != want {
		tb.Errorf("disconnected with %v, want %v", got, want)
	}
}

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
	node := run(t, gyro.Config{})
	if err := node.Run(); err == nil {
		t.Error("the second Run succeeded")
	}
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
	if err := node.Disconnect(ctx, gyro.Target{User: "u"}, nil); err != nil {
		t.Error(err)
	}
	if i := info(t, node); i.UID != node.UID() || i.Name != node.UID() {
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
		node := run(t, gyro.Config{Handlers: gyro.Handlers{
			Connecting: as,
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
		c, raw := connect(t, node, "u"), wstest.Pipe(t, node)
		c.Start(`"rpc":{}`)
		<-entered

		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := node.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v while a handler runs", err)
		}
		wantDisconnect(t, c, protocol.DisconnectShutdown)
		wantDisconnect(t, raw, protocol.DisconnectShutdown) // not even connected
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
