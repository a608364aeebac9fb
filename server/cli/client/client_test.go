package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/server/internal/wire"
)

// patience bounds every wait of a test; none takes anywhere near as long.
const patience = 20 * time.Second

// setup has the handlers of a node that permits everything, and streams in all channels.
func setup() gyro.Config {
	return gyro.Config{Channel: gyro.EveryChannel(gyro.ChannelOptions{HistorySize: 10, HistoryTTL: time.Hour}), Handlers: gyro.Handlers{
		Connecting: func(context.Context, gyro.ConnectEvent) (gyro.ConnectReply, error) {
			return gyro.ConnectReply{Credentials: &gyro.Credentials{UserID: "ann"}}, nil
		},
		Subscribe: func(_ context.Context, _ *gyro.Client, e gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
			if e.Channel == "closed" {
				return gyro.SubscribeReply{}, protocol.ErrorPermissionDenied
			}
			return gyro.SubscribeReply{Options: gyro.SubscribeOptions{Recoverable: true, Positioned: true}}, nil
		},
		RPC: func(_ context.Context, _ *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			return e.Data, nil
		},
	}}
}

// start runs a client until the test ends, and returns its events and the reason of its end.
func start(t *testing.T, url string, channels ...string) (*Client, <-chan Event, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, ended := make(chan Event, 100), make(chan error, 1)
	cfg := Config{Dialer: &wire.Dialer{URL: url}, Handle: func(e Event) error {
		events <- e
		return nil
	}}
	for _, name := range channels {
		cfg.Channels = append(cfg.Channels, Channel{Name: name})
	}
	c := New(cfg)
	go func() { ended <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-c.ended
	})
	return c, events, ended
}

// await returns the next event of a kind.
func await(t *testing.T, events <-chan Event, kind EventKind) Event {
	t.Helper()
	for {
		select {
		case e := <-events:
			if e.Kind == kind {
				return e
			}
		case <-time.After(patience):
			t.Fatalf("no event %s", kind)
		}
	}
}

func publish(t *testing.T, n *gyro.Node, data string) {
	t.Helper()
	if _, err := n.Publish(t.Context(), "news", []byte(data), nil); err != nil {
		t.Fatal(err)
	}
}

// TestRecovery: a client that is sent away comes back, and gets what it missed, once.
func TestRecovery(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	c, events, _ := start(t, server.URL, "news")
	await(t, events, Subscribed)
	publish(t, server.Node, "1")
	if e := await(t, events, Published); string(e.Publication.Data) != "1" || e.Channel != "news" {
		t.Errorf("%+v", e)
	}
	if err := server.Node.Disconnect(t.Context(), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}); err != nil {
		t.Fatal(err)
	}
	if e := await(t, events, Disconnected); !errors.Is(e.Err, protocol.DisconnectForceReconnect) || e.Delay <= 0 {
		t.Errorf("%+v", e)
	}
	publish(t, server.Node, "2")
	if e := await(t, events, Subscribed); !e.Result.WasRecovering || !e.Result.Recovered {
		t.Errorf("%+v", e.Result)
	}
	publish(t, server.Node, "3")
	var got []string
	for range 2 {
		got = append(got, string(await(t, events, Published).Publication.Data))
	}
	if !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("%q", got)
	}
	if r, err := c.Do(t.Context(), &protocol.Command{RPC: &protocol.RPCRequest{Method: "echo", Data: []byte(`{"a":1}`)}}); err != nil || string(r.RPC.Data) != `{"a":1}` {
		t.Errorf("%+v %v", r, err)
	}
	var refused *protocol.Error
	if _, err := c.Do(t.Context(), &protocol.Command{Presence: &protocol.PresenceRequest{Channel: "news"}}); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}

// TestUnsubscribed: the client subscribes again, or ends with its last channel, as the code says.
func TestUnsubscribed(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	_, events, ended := start(t, server.URL, "news")
	await(t, events, Subscribed)
	unsubscribe := func(code uint32) {
		t.Helper()
		err := server.Node.Unsubscribe(t.Context(), gyro.Target{User: "ann"}, "news", &protocol.Unsubscribe{Code: code, Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
		await(t, events, Unsubscribed)
	}
	unsubscribe(2500)
	if e := await(t, events, Subscribed); !e.Result.Recovered {
		t.Errorf("%+v", e.Result)
	}
	unsubscribe(2000)
	if err := <-ended; err == nil || err.Error() != `unsubscribed from "news" by the server: 2000 r` {
		t.Errorf("%v", err)
	}
}

// TestRefused: what the server refuses for good ends the client.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	_, _, ended := start(t, server.URL, "news", "closed")
	if err := <-ended; err == nil || err.Error() != `subscribe to "closed": error 103: permission denied` {
		t.Errorf("%v", err)
	}
	c, events, ended := start(t, server.URL, "news")
	await(t, events, Subscribed)
	if err := server.Node.Disconnect(t.Context(), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceNoReconnect}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, protocol.DisconnectForceNoReconnect) {
		t.Errorf("%v", err)
	}
	if _, err := c.Do(t.Context(), &protocol.Command{RPC: &protocol.RPCRequest{}}); err == nil {
		t.Error("a client that has ended does a command")
	}
}
