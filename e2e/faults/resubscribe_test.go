package faults

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gyrohq/gyro/broker/redis/redistest"
	"github.com/gyrohq/gyro/gyrotest/wait"
)

var resubscribeChannels = flag.Int("resubscribe-channels", 10000, "channels of the node in TestResubscribe")

// perClient is how many channels a client of TestResubscribe subscribes to, and
// perFrame how many commands it sends at once.
const (
	perClient = 500
	perFrame  = 250
)

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

// figure reads a number of INFO stats.
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

// arrivals are the channels of which publications were received.
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

// subscribeTo has clients subscribe to so many channels.
func subscribeTo(t *testing.T, url string, channels int) arrivals {
	t.Helper()
	received := make(arrivals, 1000)
	var pending []chan struct{}
	for from := 0; from < channels; from += perClient {
		ctx, cancel := context.WithCancel(context.Background())
		conn, _, err := websocket.Dial(ctx, url, nil) //nolint:bodyclose // belongs to the connection
		if err != nil {
			t.Fatal(err)
		}
		conn.SetReadLimit(64 << 20)
		done := make(chan struct{})
		t.Cleanup(func() { cancel(); <-done })
		to := min(channels, from+perClient)
		subscribed := make(chan struct{})
		go func() {
			defer close(done)
			follower{conn, received}.follow(ctx, to-from, subscribed)
		}()
		send(t, conn, `{"id":1,"connect":{}}`)
		for at := from; at < to; at += perFrame {
			var frame []string
			for i := at; i < min(to, at+perFrame); i++ {
				frame = append(frame, fmt.Sprintf(`{"id":%d,"subscribe":{"channel":"plain:%d"}}`, i-from+2, i))
			}
			send(t, conn, strings.Join(frame, "\n"))
		}
		pending = append(pending, subscribed)
	}
	patience := time.After(60 * time.Second)
	for i, subscribed := range pending {
		select {
		case <-subscribed:
		case <-patience:
			t.Fatalf("only %d of %d clients got answers to their subscriptions", i, len(pending))
		}
	}
	return received
}

func send(t *testing.T, conn *websocket.Conn, frame string) {
	t.Helper()
	if err := conn.Write(context.Background(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

// follower reads a connection.
type follower struct {
	conn     *websocket.Conn
	received arrivals
}

// follow answers pings and notes publications until the connection or ctx ends, and
// closes subscribed when so many subscriptions have been answered.
func (f follower) follow(ctx context.Context, subscriptions int, subscribed chan struct{}) {
	for {
		_, frame, err := f.conn.Read(ctx)
		if err != nil {
			return
		}
		for line := range strings.Lines(string(frame)) {
			if strings.TrimSpace(line) == "{}" {
				_ = f.conn.Write(ctx, websocket.MessageText, []byte("{}")) // Read fails next
				continue
			}
			var r struct {
				Subscribe *struct{}
				Push      struct {
					Channel string
					Pub     *struct{}
				}
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return
			}
			if r.Subscribe != nil {
				if subscriptions--; subscriptions == 0 {
					close(subscribed)
				}
			}
			if r.Push.Pub != nil {
				select {
				case f.received <- r.Push.Channel:
				default: // enough
				}
			}
		}
	}
}
