package postgres

import (
	"context"
	"fmt"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/postgres/internal/changefeed"
	"github.com/gyrohq/gyro/broker/postgres/internal/schema"
)

// Fanout carries messages from one node to all, itself included. They may get lost, come late, twice or in another
// order: then nodes read the database. FanoutOver makes one of a broker.
type Fanout interface {
	// Run begins. receive gets the messages of each topic and may keep them; several calls may be under way. lost is
	// called when messages may be missing. Neither blocks.
	Run(topics []string, receive func(topic string, message []byte), lost func()) error
	// Publish sends a message of up to 900 KiB.
	Publish(ctx context.Context, topic string, message []byte) error
	// Down tells that messages do not arrive now. It is called often.
	Down() bool
	// Close ends everything. It is called once, also when Run has failed or was not called.
	Close(ctx context.Context) error
}

// FanoutOver returns a fan-out by a broker that has no other use, such as a broker of broker/redis or broker/nats. It
// runs the broker and closes it.
func FanoutOver(b broker.Broker) Fanout { return &relay{b: b, traits: b.Describe()} }

func (b *Broker) fanout() *changefeed.Fanout {
	if b.cfg.Fanout == nil {
		return nil
	}
	return &changefeed.Fanout{
		Publish: func(ctx context.Context, table, shard int, message []byte) error {
			return b.cfg.Fanout.Publish(ctx, b.topic(table, shard), message)
		},
		Down: b.cfg.Fanout.Down, Lead: b.connections.lead, Safety: b.cfg.FanoutInterval,
		Key: int32(schema.HashText(b.sets.Stream.Outbox + " fanout " + b.cfg.FanoutName)),
	}
}

func (b *Broker) topic(table, shard int) string { return fmt.Sprintf("%s.%d", b.outbox(table), shard) }

func (b *Broker) runFanout() error {
	if b.cfg.Fanout == nil || b.alone {
		return nil
	}
	type shardKey struct{ table, shard int }
	keys := make(map[string]shardKey)
	var topics []string
	for _, table := range []int{streamTable, mapTable} {
		for shard := range b.cfg.NumShards {
			topic := b.topic(table, shard)
			keys[topic] = shardKey{table, shard}
			topics = append(topics, topic)
		}
	}
	err := b.cfg.Fanout.Run(topics, func(topic string, message []byte) {
		if at, ok := keys[topic]; ok {
			b.feed.Receive(at.table, at.shard, message)
		}
	}, b.feed.Missed)
	if err != nil {
		return fmt.Errorf("the fan-out does not start: %w", err)
	}
	return nil
}

func (b *Broker) closeFanout(ctx context.Context) error {
	var err error
	b.fanoutEnds.Do(func() {
		if b.cfg.Fanout != nil {
			err = b.cfg.Fanout.Close(ctx)
		}
	})
	return err
}
