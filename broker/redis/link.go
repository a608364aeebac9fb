package redis

import (
	"context"
	"net"
	"sync"
	"unsafe"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/redis/internal/keys"
	"github.com/gyrohq/gyro/broker/redis/internal/payload"
	"github.com/gyrohq/gyro/broker/redis/internal/pubsub"
	"github.com/gyrohq/gyro/broker/redis/internal/script"
	"github.com/gyrohq/gyro/channel"
)

// link is a connection for PUB/SUB and what is subscribed on it: the channels of a
// shard, or of one partition of it.
type link struct {
	broker    *Broker
	shard     *shard
	partition int // -1: plain PUB/SUB
	conn      *pubsub.Conn
	free      []channel.Publication // for the goroutine that delivers

	mu       sync.RWMutex
	channels map[string]*subscription // by their names in Redis
}

// subscription of a channel, and what was delivered last if it is kept in history.
// Only the goroutine that delivers changes it, holding the link's mutex for reading.
type subscription struct {
	channel string
	epoch   string
	offset  uint64
	sum     uint64 // of the payload; see fingerprint
}

// newLinks makes the links of a shard.
func (b *Broker) newLinks(s *shard) []*link {
	var links []*link
	for partition := range s.names.Partitions {
		links = append(links, b.newLink(s, partition))
	}
	return append(links, b.newLink(s, -1))
}

func (b *Broker) newLink(s *shard, partition int) *link {
	l := &link{broker: b, shard: s, partition: partition, channels: map[string]*subscription{}}
	slot := -1
	if partition >= 0 {
		slot = keys.PartitionSlot(partition)
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
			if err := b.settleBehind(ctx, l, raw); err != nil {
				return nil, err
			}
			return raw, nil
		},
		Message:      l.message,
		Resubscribed: l.resubscribed,
		Overflow:     l.overflow,
		Sharded:      partition >= 0,
		Service:      s.names.Service(s.index, b.node, partition),
		Timeout:      s.timeout,
		Logger:       b.engine.cfg.Logger,
		Publish:      func(ctx context.Context, ch string, data []byte) error { return l.canary(ctx, ch, string(data)) },
	}
	cfg.CanaryInterval, cfg.CanaryTimeout = b.engine.cfg.CanaryInterval, b.engine.cfg.CanaryTimeout
	l.conn = pubsub.New(cfg)
	return l
}

// canary is published the way that messages of the link are. Those of plain PUB/SUB in a
// Cluster go by the node that has the channel's slot, so there it goes by all of them,
// as far as sixteen slots can tell: while one does not publish, the shard is not well.
func (l *link) canary(ctx context.Context, ch, data string) error {
	client := l.shard.client
	if l.partition >= 0 || !client.Cluster() {
		verb := script.Publish
		if l.partition >= 0 {
			verb = script.ShardPublish
		}
		var c script.Call
		c.Message(verb, ch, data)
		_, err := script.Run(ctx, client, &c)
		return err
	}
	calls := make([]script.Call, len(keys.Spread()))
	for i, key := range keys.Spread() {
		calls[i].Message(script.Publish, ch, data)
		calls[i].Via(key)
	}
	results, _ := script.RunAll(ctx, client, calls, nil)
	for i := range results {
		if err := results[i].Error(); err != nil {
			return client.Explain(err)
		}
	}
	return nil
}

// subscribe has the channels known before their messages can come.
func (l *link) subscribe(ctx context.Context, channels []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names := l.names(channels)
	added := make([]bool, len(names))
	l.mu.Lock()
	for i, name := range names {
		if l.channels[name] == nil {
			l.channels[name] = &subscription{channel: keys.Part(name, channels[i])}
			added[i] = true
		}
	}
	l.mu.Unlock()
	err := l.conn.Subscribe(ctx, names...)
	if err != nil {
		l.mu.Lock()
		for i, name := range names {
			if added[i] {
				delete(l.channels, name)
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
		delete(l.channels, name)
	}
	l.mu.Unlock()
	return nil
}

func (l *link) names(channels []string) []string {
	list := make([]string, len(channels))
	for i, ch := range channels {
		list[i] = string(l.shard.names.Append(make([]byte, 0, l.shard.names.Size(ch)), keys.Client, ch, keys.Hash(ch)))
	}
	return list
}

// message is called for every message, in order.
func (l *link) message(name, data []byte) {
	l.mu.RLock()
	sub := l.channels[unsafe.String(unsafe.SliceData(name), len(name))]
	l.mu.RUnlock()
	if sub == nil {
		if c := l.broker.control; c != nil && l.partition < 0 {
			c.receive(name, data)
		}
		return
	}
	if err := l.deliver(sub, data); err != nil {
		l.broker.engine.cfg.Logger.Warn("redis: a message that cannot be read", "part", l.shard.client.Name(), "channel", sub.channel, "error", err)
	}
}

func (l *link) deliver(sub *subscription, data []byte) error {
	m, err := payload.Parse(data)
	if err != nil {
		return err
	}
	handler := l.broker.handler
	if m.Kind != payload.KindPublication {
		info := &channel.ClientInfo{}
		if err := payload.ClientInfo(m.Data, info); err != nil {
			return err
		}
		if m.Kind == payload.KindJoin {
			handler.HandleJoin(sub.channel, info)
		} else {
			handler.HandleLeave(sub.channel, info)
		}
		return nil
	}
	pub := l.publication()
	pub.Offset = m.Offset
	event := broker.PublicationEvent{Pub: pub}
	if event.Delta, err = payload.Publication(m.Data, pub); err != nil {
		return err
	}
	if m.Offset > 0 {
		sum := fingerprint(m.Data)
		l.mu.RLock()
		if sub.epoch != string(m.Epoch) {
			sub.epoch = string(m.Epoch)
		}
		sub.offset, sub.sum = m.Offset, sum
		l.mu.RUnlock()
		event.Epoch = sub.epoch
	}
	if m.Delta {
		event.Delta = true
		if len(m.Prev) > 0 {
			// The offsets of a stream have no gaps.
			event.Prev = &channel.Publication{Offset: m.Offset - 1}
			if _, err := payload.Publication(m.Prev, event.Prev); err != nil {
				return err
			}
		}
	}
	handler.HandlePublication(sub.channel, event)
	return nil
}

// publication returns a new one. Four share an allocation, the most that the runtime
// makes without a header: a slow loop keeps no more than that.
func (l *link) publication() *channel.Publication {
	if len(l.free) == 0 {
		l.free = make([]channel.Publication, 4)
	}
	pub := &l.free[0]
	l.free = l.free[1:]
	return pub
}

// resubscribed tells of what may have got lost while there was no connection.
func (l *link) resubscribed(lost bool) {
	if !lost || l.broker.engine.cfg.SkipPubSub {
		return
	}
	l.broker.handler.HandleLoss(l.has)
}

// has tells whether a channel belongs to this link.
func (l *link) has(ch string) bool {
	hash := keys.Hash(ch)
	if keys.Jump(hash, len(l.broker.shards)) != l.shard.index {
		return false
	}
	return l.shard.names.Partitions == 0 || l.shard.names.Partition(hash) == l.partition
}

// overflow tells of channels whose messages were dropped. Nil means any.
func (l *link) overflow(names []string) {
	if names == nil {
		l.broker.handler.HandleLoss(l.has)
		return
	}
	dropped := map[string]bool{}
	l.mu.RLock()
	for _, name := range names {
		if sub := l.channels[name]; sub != nil {
			dropped[sub.channel] = true
		}
	}
	l.mu.RUnlock()
	if len(dropped) > 0 {
		l.broker.handler.HandleLoss(func(ch string) bool { return dropped[ch] })
	}
}
