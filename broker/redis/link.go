package redis

import (
	"context"
	"net"
	"sync"
	"time"
	"unsafe"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/readmap"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
	"github.com/gyrohq/gyro/broker/redis/internal/losses"
	"github.com/gyrohq/gyro/broker/redis/internal/pubsub"
	"github.com/gyrohq/gyro/channel"
)

// link is a connection for PUB/SUB with its subscriptions: to channels of a shard, or of one
// partition of a shard.
type link struct {
	broker    *Broker
	shard     *shard
	partition int // -1: plain PUB/SUB
	conn      *pubsub.Conn
	marks     *losses.Marks
	refusals  refusals

	mu       sync.Mutex                  // of those who change channels
	channels readmap.Map[*losses.Stream] // by their names in Redis
}

// newLinks makes the links of a shard: one for each partition, and a plain one.
func (b *Broker) newLinks(s *shard) []*link {
	var links []*link
	for partition := range s.names.Partitions {
		links = append(links, b.newLink(s, partition))
	}
	return append(links, b.newLink(s, -1))
}

func (b *Broker) newLink(s *shard, partition int) *link {
	l := &link{broker: b, shard: s, partition: partition, marks: newMarks(b, s, partition)}
	slot := -1
	if partition >= 0 {
		slot = format.PartitionSlot(partition)
	}
	shard := &b.engine.cfg.Shards[s.index]
	login := pubsub.Login{User: shard.User, Password: shard.Password, ClientName: shard.ClientName, RESP2: shard.ForceRESP2}
	cfg := pubsub.Config{
		Name: s.client.Name(),
		Dial: func(ctx context.Context) (net.Conn, error) {
			raw, err := s.client.DialPubSub(ctx, slot)
			if err != nil {
				return nil, err
			}
			if err := pubsub.Handshake(ctx, raw, login); err != nil {
				raw.Close()
				return nil, s.client.Explain(err)
			}
			if err := b.verifyBeforeSubscribing(ctx, l, raw); err != nil {
				return nil, err
			}
			return raw, nil
		},
		Message:      l.message,
		Resubscribed: l.resubscribed,
		Overflow:     l.overflow,
		Aside:        l.aside,
		Sharded:      partition >= 0,
		Service:      s.names.Service(s.index, b.node, partition),
		Timeout:      s.timeout,
		Logger:       b.engine.cfg.Logger,
		Publish: func(ctx context.Context, ch string, data []byte) error {
			err := l.canary(ctx, ch, string(data))
			if err == nil {
				l.watch(ctx)
			}
			return err
		},
	}
	if partition >= 0 {
		cfg.MaxBackoff = min(max(minReconnect, time.Duration(s.names.Partitions)*reconnectShare), maxReconnect)
	}
	cfg.CanaryInterval, cfg.CanaryTimeout = b.engine.cfg.CanaryInterval, b.engine.cfg.CanaryTimeout
	l.conn = pubsub.New(cfg)
	return l
}

// During an outage, the links of up to 100 partitions make some 20 attempts to connect per
// second and node, all together. The first link that succeeds wakes the others. The plain
// link never waits for long.
const (
	reconnectShare = 50 * time.Millisecond
	minReconnect   = 250 * time.Millisecond
	maxReconnect   = 5 * time.Second
)

// canary publishes a canary the way that messages of the link are published. With plain
// PUB/SUB in a Cluster, each message goes by the node that has the channel's slot. So there
// the canary goes by the owners of sixteen slots: if one of them fails, the shard is ill.
func (l *link) canary(ctx context.Context, ch, data string) error {
	client := l.shard.client
	if l.partition >= 0 || !client.Cluster() {
		verb := commands.Publish
		if l.partition >= 0 {
			verb = commands.ShardPublish
		}
		var c commands.Call
		c.Message(verb, ch, data)
		_, err := commands.Run(ctx, client, &c)
		return err
	}
	calls := make([]commands.Call, len(format.Spread()))
	for i, key := range format.Spread() {
		calls[i].Message(commands.Publish, ch, data)
		calls[i].Via(key)
	}
	results, _ := commands.RunAll(ctx, client, calls, nil)
	for i := range results {
		if err := results[i].Error(); err != nil {
			return client.Explain(err)
		}
	}
	return nil
}

// subscribe adds the channels before their messages can come, and subscribes to them.
func (l *link) subscribe(ctx context.Context, channels []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names := l.names(channels)
	added := make([]bool, len(names))
	l.mu.Lock()
	for i, name := range names {
		hash := readmap.Hash(name)
		if _, known := l.channels.Get(hash, name); !known {
			l.channels.Set(hash, name, losses.NewStream(format.Part(name, channels[i])))
			added[i] = true
		}
	}
	l.mu.Unlock()
	err := l.conn.Subscribe(ctx, names...)
	if err != nil {
		l.mu.Lock()
		for i, name := range names {
			if added[i] {
				l.channels.Delete(readmap.Hash(name), name)
			}
		}
		l.mu.Unlock()
	}
	return err
}

func (l *link) unsubscribe(ctx context.Context, channels []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names := l.names(channels)
	if err := l.conn.Unsubscribe(ctx, names...); err != nil {
		return err
	}
	l.mu.Lock()
	for _, name := range names {
		l.channels.Delete(readmap.Hash(name), name)
	}
	l.mu.Unlock()
	return nil
}

func (l *link) names(channels []string) []string {
	list := make([]string, len(channels))
	for i, ch := range channels {
		list[i] = string(l.shard.names.Append(make([]byte, 0, l.shard.names.Size(ch)), format.ClientChannel, ch, format.Hash(ch)))
	}
	return list
}

// message is called for every message, in order. The receiver of the event frees the memory;
// without an event, message frees it. Memory of a message that cannot be read becomes garbage.
func (l *link) message(name, data []byte, memory *pubsub.Chunk) {
	sub := l.subscription(unsafe.String(unsafe.SliceData(name), len(name)))
	if sub == nil {
		if c := l.broker.control; c != nil && l.partition < 0 {
			c.receive(name, data)
		}
		memory.Free(1)
		return
	}
	if err := l.deliver(sub, data, memory); err != nil {
		l.broker.engine.cfg.Logger.Warn("redis: a message that cannot be read", "part", l.shard.client.Name(), "channel", sub.Channel(), "error", err)
	}
}

// subscription returns the subscription of a channel by its name in Redis, or nil.
func (l *link) subscription(name string) *losses.Stream {
	sub, _ := l.channels.Get(readmap.Hash(name), name)
	return sub
}

func (l *link) deliver(sub *losses.Stream, data []byte, memory *pubsub.Chunk) error {
	m, err := format.ParseMessage(data)
	if err != nil {
		return err
	}
	handler := l.broker.handler
	if m.Kind == format.KindClear {
		ch := sub.Channel()
		handler.HandleLoss(func(lost string) bool { return lost == ch })
		return nil
	}
	if m.Kind != format.KindPublication {
		info := &channel.ClientInfo{}
		if err := format.ReadClientInfo(m.Data, info); err != nil {
			return err
		}
		if m.Kind == format.KindJoin {
			handler.HandleJoin(sub.Channel(), info)
		} else {
			handler.HandleLeave(sub.Channel(), info)
		}
		return nil
	}
	pub := publication(memory)
	pub.Offset = m.Offset
	event := broker.PublicationEvent{Pub: pub, Memory: memory}
	if event.Delta, err = format.ReadPublication(m.Data, pub); err != nil {
		return err
	}
	if m.Offset > 0 {
		var again bool
		if event.Epoch, again = sub.Deliver(m.Epoch, m.Offset, m.Data); again {
			l.broker.noteRollback(l.shard)
		}
	}
	if m.Delta {
		event.Delta = true
		if len(m.Prev) > 0 {
			// The offsets of a stream have no gaps. A map says the offset.
			event.Prev = publication(memory)
			event.Prev.Offset = m.Offset - 1
			if _, err := format.ReadPublication(m.Prev, event.Prev); err != nil {
				return err
			}
		}
	}
	handler.HandlePublication(sub.Channel(), event)
	return nil
}

// block is how many publications are allocated at a time.
const block = 16

// publication returns an empty publication in the memory.
func publication(memory *pubsub.Chunk) *channel.Publication {
	blocks, _ := memory.Attached.(*[]*[block]channel.Publication)
	if blocks == nil {
		blocks = new([]*[block]channel.Publication)
		memory.Attached = blocks
	}
	i := memory.Used
	memory.Used++
	if i/block == len(*blocks) {
		*blocks = append(*blocks, new([block]channel.Publication))
	}
	pub := &(*blocks)[i/block][i%block]
	*pub = channel.Publication{}
	return pub
}

// aside takes control messages while messages are dropped.
func (l *link) aside(name, data []byte) bool {
	c := l.broker.control
	return c != nil && l.partition < 0 && c.offer(name, data)
}

// resubscribed tells the node of channels whose messages may have been lost while there was no
// connection.
func (l *link) resubscribed(lost bool) {
	l.shard.losses.Add(1)
	for _, other := range l.broker.links[l.shard.index] {
		if other != l {
			other.conn.Wake()
		}
	}
	if !lost || l.broker.engine.cfg.SkipPubSub {
		return
	}
	l.broker.handler.HandleLoss(l.has)
}

// has tells whether a channel belongs to this link.
func (l *link) has(ch string) bool {
	hash := format.Hash(ch)
	if format.Jump(hash, len(l.broker.shards)) != l.shard.index {
		return false
	}
	return l.shard.names.Partitions == 0 || l.shard.names.Partition(hash) == l.partition
}

// overflow tells the node of channels whose messages were dropped. Nil stands for all.
func (l *link) overflow(names []string) {
	l.shard.losses.Add(1)
	if names == nil {
		l.broker.handler.HandleLoss(l.has)
		return
	}
	dropped := map[string]bool{}
	for _, name := range names {
		if sub := l.subscription(name); sub != nil {
			dropped[sub.Channel()] = true
		}
	}
	if len(dropped) > 0 {
		l.broker.handler.HandleLoss(func(ch string) bool { return dropped[ch] })
	}
}
