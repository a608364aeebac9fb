// Package nodetest has the helpers that the tests of a node share. The tests themselves are below, by subject:
//
//   - nodes: how nodes begin and end, alone and in a cluster, and their operations on clients anywhere
//   - connections: transports and modes of connections, and the state of a client that comes back
//   - handlers: when the functions of the application are called, and how the node uses their answers
//   - channels: publications, streams and recovery, maps, shared polls and feeds
//   - engines: how a node uses its engines, and how it works when they, or other engines, fail
//   - observation: counts, logs, taps, the flight recorder, and the list of connections
//   - costs: allocations and bytes of a program that does nothing else
//
// They use the node as programs do. Tests that need unexported names are in the root of the repository.
package nodetest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/internal/testkit/wstest"
	"github.com/gyrohq/gyro/protocol"
)

// Main runs the tests of a package, which leave no goroutine.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 && !wait.Within(wait.Limit, func() bool { return goleak.Find() == nil }) {
		fmt.Fprintln(os.Stderr, goleak.Find())
		code = 1
	}
	os.Exit(code)
}

// Quiet is a log whose lines are formatted and dropped; slog.DiscardHandler does not format them.
var Quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// Run starts a node that is shut down, and found empty, when the test ends.
func Run(tb testing.TB, cfg gyro.Config) *gyro.Node {
	tb.Helper()
	node := gyrotest.NewNode(tb, cfg)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Limit)
		defer cancel()
		if err := node.Shutdown(ctx); err != nil {
			tb.Errorf("Shutdown: %v", err)
		}
		if i := Info(tb, node); i.NumClients != 0 || i.NumUsers != 0 || i.NumChannels != 0 {
			tb.Errorf("after the shutdown there are %+v", i)
		}
	})
	return node
}

// Info returns the information that a single node reports about itself.
func Info(tb testing.TB, n *gyro.Node) gyro.NodeInfo {
	tb.Helper()
	infos, err := n.Cluster().Nodes(context.Background())
	if err != nil || len(infos) != 1 {
		tb.Fatalf("Info: %v, %v", infos, err)
	}
	return infos[0]
}

// Open is a node that lets every client do everything.
func Open(tb testing.TB, o gyro.SubscribeOptions, p gyro.PublishOptions) *gyro.Node {
	return Run(tb, gyro.Config{Handlers: Everything(o, p)})
}

// Everything lets every client do everything, with these options.
func Everything(o gyro.SubscribeOptions, p gyro.PublishOptions) gyro.Handlers {
	return gyro.Handlers{
		Connecting: As,
		Subscribe:  Allow(o),
		Publish: func(context.Context, *gyro.Client, gyro.PublishEvent) (gyro.PublishReply, error) {
			return gyro.PublishReply{Options: p}, nil
		},
		Presence: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceReply, error) {
			return gyro.PresenceReply{}, nil
		},
		PresenceStats: func(context.Context, *gyro.Client, gyro.PresenceEvent) (gyro.PresenceStatsReply, error) {
			return gyro.PresenceStatsReply{}, nil
		},
		History: func(context.Context, *gyro.Client, gyro.HistoryEvent) (gyro.HistoryReply, error) {
			return gyro.HistoryReply{}, nil
		},
		RPC: func(context.Context, *gyro.Client, gyro.RPCEvent) ([]byte, error) { return nil, nil },
	}
}

// As accepts every client as the user that its token names.
func As(_ context.Context, e gyro.ConnectEvent) (gyro.ConnectReply, error) {
	return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: e.Token}}, nil
}

// Allow accepts subscriptions with these options.
func Allow(o gyro.SubscribeOptions) func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
	return func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		return gyro.SubscribeReply{Options: o}, nil
	}
}

// Granted subscribes every client to channels, which are recoverable.
func Granted(channels ...string) gyro.Handlers {
	return gyro.Handlers{Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
		subs := make(map[string]gyro.SubscribeOptions)
		for _, ch := range channels {
			subs[ch] = gyro.SubscribeOptions{Recoverable: true}
		}
		return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "u"}, Subscriptions: subs}, nil
	}}
}

// Connect opens a connection of a user.
func Connect(tb testing.TB, n *gyro.Node, user string) *wstest.Client {
	tb.Helper()
	c := wstest.Pipe(tb, n)
	c.Connect(`"token":"` + user + `"`)
	return c
}

// WantDisconnect waits for the end of a connection, with a disconnect.
func WantDisconnect(tb testing.TB, c *wstest.Client, want protocol.Disconnect) {
	tb.Helper()
	if got := c.Disconnected(); got != want {
		tb.Errorf("disconnected with %v, want %v", got, want)
	}
}

// Publish publishes into a channel, which has to succeed.
func Publish(tb testing.TB, n *gyro.Node, ch, data string, o ...*gyro.PublishOptions) gyro.PublishResult {
	tb.Helper()
	res, err := n.Publish(context.Background(), ch, []byte(data), append(o, nil)[0])
	if err != nil {
		tb.Fatalf("publish into %s: %v", ch, err)
	}
	return res
}

// Keep returns options with a history.
func Keep(size int, ttl time.Duration) *gyro.PublishOptions {
	return &gyro.PublishOptions{HistorySize: size, HistoryTTL: ttl}
}

// WantPub waits for the next push: a publication with data.
func WantPub(tb testing.TB, c *wstest.Client, data string) *protocol.Publication {
	tb.Helper()
	p := c.Pub()
	if string(p.Data) != data {
		tb.Errorf("got publication %s, want %s", p.Data, data)
	}
	return p
}

// Must ends the test if there is an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
