// Package pubsub is the receiving side of a Redis shard: one connection that subscribes and receives at little cost. It
// proves every second that it delivers; when it does not, it connects again and restores its subscriptions.
//
// A Conn has a table (subscriptions, and commands that wait for their confirmation), a heartbeat (canaries and health),
// a queue (from the reader to the handler) and, while it is connected, a connection (the socket with its reader and
// writer).
package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/resp"
	"github.com/gyrohq/gyro/internal/random"
)

// Config of a Conn. Dial, Message, Publish and CanaryChannel are required.
//
// Message, Resubscribed and Overflow are called one at a time. They may block for a short time, and must not call Close.
type Config struct {
	// Name has no secrets.
	Name string
	// Dial returns a connection that is ready for SUBSCRIBE (see Handshake), until ctx ends, after Timeout.
	Dial func(ctx context.Context) (net.Conn, error)
	// Message is called for every message, in order, by the goroutine that reads, as long as Message keeps pace. Workers
	// would cost more: handing a message to another goroutine takes 600 ns of CPU, in a burst 50 to 120 ns, while
	// reading takes 170 ns.
	//
	// channel and payload are parts of memory, valid until memory.Free(1). Without that call the garbage collector gets
	// the memory, 64 KiB or a larger message.
	Message func(channel, payload []byte, memory *Chunk)
	// Resubscribed: everything subscribed is delivered. lost is false for the first connection.
	Resubscribed func(lost bool)
	// Overflow: messages of these channels, nil for any, were dropped, and are delivered again now. The callee may keep
	// the slice.
	Overflow func(channels []string)
	// TakeDropped may take a message that would be dropped. It must not wait, nor keep its arguments.
	TakeDropped func(channel, payload []byte) bool
	// Sharded uses SSUBSCRIBE: all channels belong to one slot of a Redis Cluster.
	Sharded bool

	// Publish sends a canary by another connection. It must end when ctx does.
	Publish func(ctx context.Context, channel string, data []byte) error
	// CanaryChannel is for this Conn alone.
	CanaryChannel string
	// CanaryInterval: default 1 s.
	CanaryInterval time.Duration
	// CanaryTimeout (3 s, at least twice CanaryInterval) is how long nothing may arrive.
	CanaryTimeout time.Duration

	// Timeout (4 s) of dialing, of a write, and of a confirmation.
	Timeout time.Duration
	// MinBackoff (100 ms) and MaxBackoff (250 ms) bound the pause between two attempts to connect. Half of it is random.
	// It doubles until a canary has come back. Messages in the pause are lost.
	MinBackoff, MaxBackoff time.Duration
	// MaxMessage (64 MiB): a larger message breaks the connection.
	MaxMessage int
	// MaxQueue (4,096 messages) and MaxQueueBytes (16 MiB) bound what waits for Message.
	MaxQueue, MaxQueueBytes int
	// MaxStall (1 s) is how long messages may gather at the server before they are dropped.
	MaxStall time.Duration

	// Logger gets each outage and, at level debug, attempts to connect. Nil: none.
	Logger *slog.Logger
	// Random returns a number in [0, 1). Nil: math/rand.
	Random func() float64
}

// Chunk is the memory of messages. Attached and Used belong to the handler.
type Chunk = resp.Chunk

const maxChannelName = 64 << 10

func (c *Config) period() time.Duration { return c.CanaryInterval / 2 }

func (c *Config) complete() {
	c.CanaryInterval = enginekit.PositiveOr(c.CanaryInterval, time.Second)
	c.CanaryTimeout = enginekit.PositiveOr(c.CanaryTimeout, 3*time.Second)
	c.CanaryTimeout = max(c.CanaryTimeout, 2*c.CanaryInterval)
	c.Timeout = enginekit.PositiveOr(c.Timeout, 4*time.Second)
	c.MinBackoff = enginekit.PositiveOr(c.MinBackoff, 100*time.Millisecond)
	c.MaxBackoff = enginekit.PositiveOr(c.MaxBackoff, 250*time.Millisecond)
	c.MaxBackoff = max(c.MaxBackoff, c.MinBackoff)
	c.MaxMessage = enginekit.PositiveOr(c.MaxMessage, 64<<20)
	c.MaxQueue = enginekit.PositiveOr(c.MaxQueue, 4096)
	c.MaxQueueBytes = enginekit.PositiveOr(c.MaxQueueBytes, 16<<20)
	c.MaxStall = enginekit.PositiveOr(c.MaxStall, time.Second)
	c.Name = cmp.Or(c.Name, "redis")
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Random == nil {
		c.Random = random.Float64
	}
	if c.Resubscribed == nil {
		c.Resubscribed = func(bool) {}
	}
	if c.TakeDropped == nil {
		c.TakeDropped = func(_, _ []byte) bool { return false }
	}
	if c.Overflow == nil {
		c.Overflow = func([]string) {}
	}
}

func (c *Config) validate() error {
	switch {
	case c.Dial == nil:
		return errors.New("pubsub: Config.Dial is missing")
	case c.Message == nil:
		return errors.New("pubsub: Config.Message is missing")
	case c.Publish == nil:
		return errors.New("pubsub: Config.Publish is missing")
	case c.CanaryChannel == "":
		return errors.New("pubsub: Config.CanaryChannel is missing")
	case len(c.CanaryChannel) > maxChannelName:
		return fmt.Errorf("pubsub: Config.CanaryChannel of %d bytes exceeds the limit of %d", len(c.CanaryChannel), maxChannelName)
	}
	return nil
}
