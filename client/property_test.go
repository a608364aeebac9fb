package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest"
	"github.com/gyrohq/gyro/protocol"
)

// TestNothingIsLost: whatever ends connections and subscriptions, a subscriber gets each publication once and in order,
// or is told of a gap.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	encodings(t, func(t *testing.T, e protocol.Encoding) {
		server := gyrotest.NewServer(t, setup())
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			follow(rt, t.Context(), server, e, fmt.Sprintf("news:%d", n))
		})
	})
}

func follow(t *rapid.T, ctx context.Context, server *gyrotest.Server, e protocol.Encoding, channel string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := client.New(server.URL, client.Options{Encoding: e, Timeout: patience, MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond})
	must(t, err)
	defer c.Close()
	s, err := c.NewSubscription(channel, &client.SubscribeOptions{Delta: rapid.Bool().Draw(t, "delta")})
	must(t, err)
	all := []iter.Seq2[client.Publication, error]{s.Publications(ctx)}
	s.Subscribe()
	must(t, c.Connect(ctx))
	must(t, s.Ready(ctx))
	published := 0
	publish := func() {
		published++
		_, err := server.Node.Publish(ctx, channel, fmt.Appendf(nil, `{"n":%d,"text":"the same in all of them, the same in all"}`, published), &gyro.PublishOptions{Delta: true})
		must(t, err)
	}
	me := gyro.Target{User: "ann"}
	for _, what := range rapid.SliceOfN(rapid.IntRange(0, 9), 1, 30).Draw(t, "what") {
		switch what {
		case 0:
			must(t, server.Node.Users().Disconnect(ctx, me, &gyro.DisconnectOptions{Disconnect: &protocol.DisconnectForceReconnect}))
		case 1:
			must(t, server.Node.Users().Unsubscribe(ctx, me, channel, &protocol.Unsubscribe{Code: 2500, Reason: "again"}))
		case 2:
			c.Disconnect()
			all = append(all, s.Publications(ctx))
			publish()
			must(t, c.Connect(ctx))
		case 3:
			for range 11 { // more than the stream keeps
				publish()
			}
		default:
			publish()
		}
	}
	must(t, c.Connect(ctx))
	publish()
	next, stop := iter.Pull2(joined(all))
	defer stop()
	check(t, next, published)
}

// joined: all iterators but the last end because the client is disconnected.
func joined(all []iter.Seq2[client.Publication, error]) iter.Seq2[client.Publication, error] {
	return func(yield func(client.Publication, error) bool) {
		for _, one := range all {
			for p, err := range one {
				if errors.Is(err, client.DisconnectCalled) {
					break
				}
				if !yield(p, err) {
					return
				}
			}
		}
	}
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *rapid.T, next func() (client.Publication, error, bool), last int) {
	at, gaps := uint64(0), 0
	for at < uint64(last) {
		p, err, ok := next()
		var gap *client.GapError
		if errors.As(err, &gap) {
			if gap.From.Offset != at || gap.To.Offset < at {
				t.Fatalf("at %d: %v", at, gap)
			}
			at, gaps = gap.To.Offset, gaps+1
			continue
		}
		if !ok || err != nil {
			t.Fatalf("at %d of %d: %v %v", at, last, err, ok)
		}
		at++
		if want := fmt.Sprintf(`{"n":%d,"text":"the same in all of them, the same in all"}`, at); p.Offset != at || string(p.Data) != want {
			t.Fatalf("at %d: %d %s, after %d gaps", at, p.Offset, p.Data, gaps)
		}
	}
}
