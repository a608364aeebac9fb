package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/gyrotest/wait"
	"github.com/gyrohq/gyro/protocol"
)

// setup has the handlers of a node that permits everything but the channel "closed", and streams in all channels.
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
		RPC: func(_ context.Context, c *gyro.Client, e gyro.RPCEvent) ([]byte, error) {
			if e.Method == "leave" {
				c.Disconnect(protocol.DisconnectForceReconnect)
				<-c.Context().Done() // the reply comes too late
			}
			return e.Data, nil
		},
	}}
}

// lines is an Output that hands on what it gets.
type lines chan line

func (l lines) Write(p []byte) (int, error) {
	var one line
	err := json.Unmarshal(p, &one)
	l <- one
	return len(p), err
}

// start runs a command until the test ends, and returns what it prints and how it ends.
func start(t *testing.T, run func(context.Context, *Output) error) (lines, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, ended, over := make(lines, 10_000), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- run(ctx, &Output{Out: out, JSON: true})
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return out, ended
}

func follows(t *testing.T, url string, s Subscribe) (lines, <-chan error) {
	t.Helper()
	s.URL = url
	return start(t, s.Run)
}

// await returns the next line of a type.
func await(t *testing.T, out lines, kind string) line {
	t.Helper()
	for {
		if l := wait.Receive(t, "a line of type "+kind, out); l.Type == kind {
			return l
		}
	}
}

func sendAway(t *testing.T, n *gyro.Node, d protocol.Disconnect) {
	t.Helper()
	if err := n.Users().Disconnect(t.Context(), gyro.Target{User: "ann"}, &gyro.DisconnectOptions{Disconnect: &d}); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, n *gyro.Node, data string) {
	t.Helper()
	if _, err := n.Publish(t.Context(), "news", []byte(data), nil); err != nil {
		t.Fatal(err)
	}
}

func endsWith(t *testing.T, ended <-chan error, want string) {
	t.Helper()
	if err := wait.Receive(t, "the end of the command", ended); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestRecovery: a client that is sent away comes back, and gets what it missed, once. Everything is told in its order.
func TestRecovery(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	out, _ := follows(t, server.URL, Subscribe{Channels: []string{"news"}})
	await(t, out, "subscribed")
	publish(t, server.Node, "1")
	if l := await(t, out, "publication"); string(l.Data) != "1" || l.Channel != "news" {
		t.Errorf("%+v", l)
	}
	sendAway(t, server.Node, protocol.DisconnectForceReconnect)
	if l := await(t, out, "disconnected"); l.Reason != protocol.DisconnectForceReconnect.Error() {
		t.Errorf("%+v", l)
	}
	publish(t, server.Node, "2")
	publish(t, server.Node, "3")
	await(t, out, "connected")
	if l := await(t, out, "subscribed"); !l.Recovering || !l.Recovered {
		t.Errorf("%+v", l)
	}
	var got []string
	for range 2 {
		got = append(got, string(await(t, out, "publication").Data))
	}
	if !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("%q", got)
	}
}

// TestUnsubscribed: the client subscribes again, or the command ends with its last channel, as the code says.
func TestUnsubscribed(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	out, ended := follows(t, server.URL, Subscribe{Channels: []string{"news", "other"}})
	await(t, out, "subscribed")
	await(t, out, "subscribed")
	unsubscribe := func(ch string, code uint32) {
		t.Helper()
		err := server.Node.Users().Unsubscribe(t.Context(), gyro.Target{User: "ann"}, ch, &protocol.Unsubscribe{Code: code, Reason: "r"})
		if err != nil {
			t.Fatal(err)
		}
		if l := await(t, out, "unsubscribed"); l.Channel != ch || l.Reason != fmt.Sprintf("unsubscribed from %q by the server: %d r", ch, code) {
			t.Errorf("%+v", l)
		}
	}
	unsubscribe("news", 2500)
	if l := await(t, out, "subscribed"); !l.Recovered {
		t.Errorf("%+v", l)
	}
	unsubscribe("other", 2000)
	unsubscribe("news", 2000)
	endsWith(t, ended, `unsubscribed from "news" by the server: 2000 r`)
}

// TestRefused: what the server refuses for good ends a command.
func TestRefused(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	_, ended := follows(t, server.URL, Subscribe{Channels: []string{"news", "closed"}})
	endsWith(t, ended, `subscribe to "closed": error 103: permission denied`)
	out, ended := follows(t, server.URL, Subscribe{Channels: []string{"news"}})
	await(t, out, "subscribed")
	sendAway(t, server.Node, protocol.DisconnectForceNoReconnect)
	endsWith(t, ended, protocol.DisconnectForceNoReconnect.Error())
}

// TestCommandLost: a command whose connection is lost before the reply fails, and says why.
func TestCommandLost(t *testing.T) {
	t.Parallel()
	server := gyrotest.NewServer(t, setup())
	_, ended := start(t, (&RPC{Remote: Remote{URL: server.URL}, Method: "leave"}).Run)
	endsWith(t, ended, "the connection is lost: "+protocol.DisconnectForceReconnect.Error())
}

// TestMapAsItIs: whatever happens to the connection and the history of changes, what was printed is what the map has,
// with deltas and without.
func TestMapAsItIs(t *testing.T) {
	t.Parallel()
	for _, delta := range []bool{false, true} {
		for _, options := range []channel.MapOptions{{KeyTTL: time.Hour}, {StreamSize: 8, StreamTTL: time.Hour, Delta: true}} {
			t.Run(fmt.Sprint(delta, options.StreamSize), func(t *testing.T) {
				t.Parallel()
				followMap(t, delta, options)
			})
		}
	}
}

// shown is what the lines of a map say.
type shown struct {
	has               map[string]string
	live              bool
	resets, recovered int
}

func (s *shown) take(l line) {
	switch l.Type {
	case "reset":
		clear(s.has)
		s.live = false
		s.resets++
	case "disconnected", "unsubscribed":
		s.live = false
	case "subscribed":
		if s.live = true; l.Recovered {
			s.recovered++
		}
	case "entry", "publication":
		if s.has[l.Key] = string(l.Data); l.Removed {
			delete(s.has, l.Key)
		}
	}
}

func followMap(t *testing.T, delta bool, options channel.MapOptions) {
	setup := setup()
	setup.Handlers.Subscribe = func(context.Context, *gyro.Client, gyro.SubscribeEvent) (gyro.SubscribeReply, error) {
		return gyro.SubscribeReply{Options: gyro.SubscribeOptions{AllowDelta: true, Map: &channel.MapSubscription{
			Kind: channel.MapData, Ephemeral: options.StreamSize == 0, PageSize: 3, MinPageSize: 1, MaxPageSize: 3,
		}}}, nil
	}
	server := gyrotest.NewServer(t, setup)
	want, random := make(map[string]string), rand.New(rand.NewPCG(1, 2))
	set := func(key, value string, removed bool) {
		t.Helper()
		if want[key] = value; removed {
			delete(want, key)
		}
		if _, err := server.Node.Maps().Change(t.Context(), "m", &channel.Publication{Key: key, Data: []byte(value), Removed: removed}, options); err != nil {
			t.Fatal(err)
		}
	}
	steps := func(n int) {
		t.Helper()
		for range n {
			key := fmt.Sprint("k", random.IntN(12))
			_, there := want[key]
			set(key, fmt.Sprintf(`{"n":%d,"text":%q}`, random.IntN(1000), strings.Repeat("the same in all ", 20)), there && random.IntN(4) == 0)
		}
	}
	steps(20)
	out, ended := follows(t, server.URL, Subscribe{Channels: []string{"m"}, Kind: Kind{Type: Map, Delta: delta}})
	s := &shown{has: make(map[string]string)}
	// read takes lines until the client has the last change and has caught up.
	read := func(last string) {
		t.Helper()
		for !s.live || s.has["end"] != last {
			select {
			case l := <-out:
				s.take(l)
			case err := <-ended:
				t.Fatalf("the command has ended: %v", err)
			case <-time.After(wait.Limit):
				t.Fatalf("%s does not come: %v", last, s.has)
			}
		}
		if !maps.Equal(s.has, want) {
			t.Fatalf("after %s: got %v\nwant %v", last, s.has, want)
		}
	}
	for round := range 30 {
		switch {
		case round%10 == 9:
			sendAway(t, server.Node, protocol.DisconnectForceReconnect)
		case round%5 == 4:
			if err := server.Node.Users().Unsubscribe(t.Context(), gyro.Target{User: "ann"}, "m", &protocol.Unsubscribe{Code: 2500, Reason: "again"}); err != nil {
				t.Fatal(err)
			}
		}
		steps(random.IntN(12)) // more than the stream has, at times
		last := fmt.Sprintf(`"%d"`, round)
		set("end", last, false)
		read(last)
	}
	if options.StreamSize == 0 && s.resets == 0 || options.StreamSize > 0 && s.recovered == 0 {
		t.Errorf("%d resets, %d recoveries", s.resets, s.recovered)
	}
}
