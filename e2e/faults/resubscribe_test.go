package faults

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/client"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var resubscribeChannels = flag.Int("resubscribe-channels", 10000, "channels of the node in TestResubscribe")

const perClient = 500

// TestResubscribe: Redis comes back, and one node subscribes to all its channels again.
func TestResubscribe(t *testing.T) {
	redis := redistest.Standalone(t, redistest.Options{})
	node := launch(t, config(address(redis.Addr())))
	wait.Until(t, "the node", func() bool { return healthy(node.Addr) })
	watched := subscribeTo(t, node.WS(), *resubscribeChannels)

	for _, test := range []struct {
		name string
		do   func()
	}{
		{"PUB/SUB connection killed", func() { redis.Do("CLIENT", "KILL", "TYPE", "pubsub") }},
		{"Redis restarted", func() { redis.Restart(true) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.do()
			start := time.Now()
			var first time.Time
			wait.Until(t, "all channels", func() bool {
				n := figure(t, redis, "pubsub_channels")
				if n > 0 && n < *resubscribeChannels && first.IsZero() {
					first = time.Now()
				}
				return n >= *resubscribeChannels
			})
			end := time.Now()
			if first.IsZero() {
				first = start // all was done before the first poll
			}
			t.Logf("%d channels: all subscribed again %v after Redis was back, %v after the first of them",
				*resubscribeChannels, end.Sub(start).Round(time.Millisecond), end.Sub(first).Round(time.Millisecond))
			if took := end.Sub(first); took > time.Second {
				t.Errorf("it took %v, want at most 1s", took)
			}
			wait.Until(t, "the node's health", func() bool { return healthy(node.Addr) })
			wait.Until(t, "a publication", func() bool {
				publish(t, node.Addr, "plain:0")
				return watched.has("plain:0")
			})
		})
	}
	// The last connection is the one that asks.
	if n := strings.Count(redis.Do("CLIENT", "LIST"), "id=") - 1; n >= 4 {
		t.Errorf("the node has %d connections to Redis, want fewer than 4:\n%s", n, redis.Do("CLIENT", "LIST"))
	} else {
		t.Logf("%d connections to Redis", n)
	}
}

func figure(t *testing.T, server *redistest.Server, name string) int {
	t.Helper()
	for line := range strings.Lines(server.Do("INFO", "stats")) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("INFO stats has no %s", name)
	return 0
}

type arrivals chan string

func (a arrivals) has(channel string) bool {
	for {
		select {
		case got := <-a:
			if got == channel {
				return true
			}
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}
}

func subscribeTo(t *testing.T, url string, channels int) arrivals {
	t.Helper()
	received := make(arrivals, 1000)
	var all []*client.Subscription
	for from := 0; from < channels; from += perClient {
		c, err := client.New(url, client.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		var subs []*client.Subscription
		for i := from; i < min(channels, from+perClient); i++ {
			s, err := c.NewSubscription(fmt.Sprint("plain:", i), nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Subscribe()
			subs = append(subs, s)
		}
		events := c.Events(t.Context(), subs...)
		go func() {
			for e := range events {
				if p, ok := e.(client.PublicationEvent); ok {
					select {
					case received <- p.Channel:
					default: // enough
					}
				}
			}
		}()
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = append(all, subs...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range all {
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return received
}
