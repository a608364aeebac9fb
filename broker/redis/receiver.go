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

// receiver is a connection for PUB/SUB with its subscriptions: to channels of a shard, or of one of its partitions.
type receiver struct {
	broker       *Broker
	shard        *shard
	partition    int // -1: plain PUB/SUB
	conn         *pubsub.Conn
	marks        *losses.Marks
	markFailures markFailures

	mu       sync.Mutex                  // of those who change channels
	channels readmap.Map[*losses.Stream] // by their names in Redis
}

func (b *Broker) newReceivers(s *shard) []*receiver {
	var receivers []*receiver
	for partition := range s.names.Partitions {
		receivers = append(receivers, b.newReceiver(s, partition))
	}
	return append(receivers, b.newReceiver(s, -1))
}

func (b *Broker) newReceiver(s *shard, partition int) *receiver {
	r := &receiver{broker: b, shard: s, partition: partition, marks: newMarks(b, s, partition)}
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
			if err := b.verifyBeforeSubscribing(ctx, r, raw); err != nil {
				return nil, err
			}
			return raw, nil
		},
		Message:       r.message,
		Resubscribed:  r.resubscribed,
		Overflow:      r.overflow,
		TakeDropped:   r.takeDropped,
		Sharded:       partition >= 0,
		CanaryChannel: s.names.CanaryChannel(s.index, b.node, partition),
		Timeout:       s.timeout,
		Logger:        b.engine.cfg.Logger,
		Publish: func(ctx context.Context, ch string, data []byte) error {
			err := r.canary(ctx, ch, string(data))
			if err == nil {
				r.watch(ctx)
			}
			return err
		},
	}
	if partition >= 0 {
		cfg.MaxBackoff = min(max(minReconnect, time.Duration(s.names.Partitions)*reconnectShare), maxReconnect)
	}
	cfg.CanaryInterval, cfg.CanaryTimeout = b.engine.cfg.CanaryInterval, b.engine.cfg.CanaryTimeout
	r.conn = pubsub.New(cfg)
	return r
}

// During an outage, the receivers of up to 100 partitions make some 20 attempts to connect per second and node together.
// The first one that succeeds wakes the others.
const (
	reconnectShare = 50 * time.Millisecond
	minReconnect   = 250 * time.Millisecond
	maxReconnect   = 5 * time.Second
)

// canary publishes a canary on the way of messages. With plain PUB/SUB in a Cluster, each message goes by the node that
// has the channel's slot, so the canary goes by the owners of sixteen slots: if one of them fails, the shard is
// unhealthy.
func (r *receiver) canary(ctx context.Context, ch, data string) error {
	client := r.shard.client
	if r.partition >= 0 || !client.Cluster() {
		verb := commands.Publish
		if r.partition >= 0 {
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

// subscribe adds the channels before their messages can come.
func (r *receiver) subscribe(ctx context.Context, channels []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names := r.names(channels)
	added := make([]bool, len(names))
	r.mu.Lock()
	for i, name := range names {
		hash := readmap.Hash(name)
		if _, known := r.channels.Get(hash, name); !known {
			r.channels.Set(hash, name, losses.NewStream(format.Part(name, channels[i])))
			added[i] = true
		}
	}
	r.mu.Unlock()
	err := r.conn.Subscribe(ctx, names...)
	if err != nil {
		r.mu.Lock()
		for i, name := range names {
			if added[i] {
				r.channels.Delete(readmap.Hash(name), name)
			}
		}
		r.mu.Unlock()
	}
	return err
}

func (r *receiver) unsubscribe(ctx context.Context, channels []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names := r.names(channels)
	if err := r.conn.Unsubscribe(ctx, names...); err != nil {
		return err
	}
	r.mu.Lock()
	for _, name := range names {
		r.channels.Delete(readmap.Hash(name), name)
	}
	r.mu.Unlock()
	return nil
}

func (r *receiver) names(channels []string) []string {
	list := make([]string, len(channels))
	for i, ch := range channels {
		list[i] = string(r.shard.names.Append(make([]byte, 0, r.shard.names.Size(ch)), format.ClientChannel, ch, format.Hash(ch)))
	}
	return list
}

// message: the receiver of the event frees the memory; without an event, message does. Memory of a message that cannot
// be read becomes garbage.
func (r *receiver) message(name, data []byte, memory *pubsub.Chunk) {
	sub := r.subscription(unsafe.String(unsafe.SliceData(name), len(name)))
	if sub == nil {
		if c := r.broker.control; c != nil && r.partition < 0 {
			c.receive(name, data)
		}
		memory.Free(1)
		return
	}
	if err := r.deliver(sub, data, memory); err != nil {
		r.broker.engine.cfg.Logger.Warn("redis: a message that cannot be read", "part", r.shard.client.Name(), "channel", sub.Channel(), "error", err)
	}
}

func (r *receiver) subscription(name string) *losses.Stream {
	sub, _ := r.channels.Get(readmap.Hash(name), name)
	return sub
}

func (r *receiver) deliver(sub *losses.Stream, data []byte, memory *pubsub.Chunk) error {
	m, err := format.ParseMessage(data)
	if err != nil {
		return err
	}
	switch m.Kind {
	case format.KindPublication:
		return r.deliverPublication(sub, &m, memory)
	case format.KindClear:
		ch := sub.Channel()
		r.broker.handler.HandleLoss(func(lost string) bool { return lost == ch })
		return nil
	}
	info := &channel.ClientInfo{}
	if err := format.ReadClientInfo(m.Data, info); err != nil {
		return err
	}
	if m.Kind == format.KindJoin {
		r.broker.handler.HandleJoin(sub.Channel(), info)
	} else {
		r.broker.handler.HandleLeave(sub.Channel(), info)
	}
	return nil
}

func (r *receiver) deliverPublication(sub *losses.Stream, m *format.Message, memory *pubsub.Chunk) (err error) {
	pub := publication(memory)
	pub.Offset = m.Offset
	event := broker.PublicationEvent{Pub: pub, Memory: memory}
	if event.Delta, err = format.ReadPublication(m.Data, pub); err != nil {
		return err
	}
	if m.Offset > 0 {
		var again bool
		if event.Epoch, again = sub.Deliver(m.Epoch, m.Offset, m.Data); again {
			r.broker.noteRollback(r.shard)
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
	r.broker.handler.HandlePublication(sub.Channel(), event)
	return nil
}

const block = 16

// publication returns an empty publication in the memory, where block of them are allocated at a time.
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

func (r *receiver) takeDropped(name, data []byte) bool {
	c := r.broker.control
	return c != nil && r.partition < 0 && c.offer(name, data)
}

func (r *receiver) resubscribed(lost bool) {
	r.shard.losses.Add(1)
	for _, other := range r.broker.receivers[r.shard.index] {
		if other != r {
			other.conn.Wake()
		}
	}
	if !lost || r.broker.engine.cfg.SkipPubSub {
		return
	}
	r.broker.handler.HandleLoss(r.has)
}

func (r *receiver) has(ch string) bool {
	hash := format.Hash(ch)
	if format.Jump(hash, len(r.broker.shards)) != r.shard.index {
		return false
	}
	return r.shard.names.Partitions == 0 || r.shard.names.Partition(hash) == r.partition
}

// overflow gets the channels whose messages were dropped, nil for all.
func (r *receiver) overflow(names []string) {
	r.shard.losses.Add(1)
	if names == nil {
		r.broker.handler.HandleLoss(r.has)
		return
	}
	dropped := map[string]bool{}
	for _, name := range names {
		if sub := r.subscription(name); sub != nil {
			dropped[sub.Channel()] = true
		}
	}
	if len(dropped) > 0 {
		r.broker.handler.HandleLoss(func(ch string) bool { return dropped[ch] })
	}
}
