package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/broker/enginekit"
	"github.com/gyrohq/gyro/broker/redis/internal/commands"
	"github.com/gyrohq/gyro/broker/redis/internal/format"
)

// Broker is the broker of an Engine, and the broker.Controller of its nodes. It delivers at most once. HandleLoss tells
// when publications may be missing.
//
// Redis may lose the newest publications of a stream, in a failover or a restart, or because its data went back while it
// ran. If this node delivered them, or they were acknowledged to it, the stream gets another epoch before anything is
// read of it or published to it. So no subscriber goes on from a position that does not exist any more. For that, a node
// that uses history or presence writes a key of its own, prefix.mark.ID, with every canary, and a sample publication,
// prefix.sample.ID, without PUB/SUB. Health reports when Redis refuses two in a row.
//
// Operations end within Shard.IOTimeout. Errors name the shard, and hold the answer of Redis (OOM, READONLY, LOADING,
// CLUSTERDOWN, ...).
type Broker struct {
	engine *Engine
	kinds  *commands.HistoryScripts // how history is kept
	maps   *mapEntries

	lifecycle enginekit.Lifecycle
	node      string // ID in the names of channels
	control   *controlQueue

	lifetime   context.Context // of background
	end        context.CancelFunc
	background sync.WaitGroup

	// Constant while the broker runs.
	handler   broker.EventHandler
	shards    []*shard
	receivers [][]*receiver // by shard: the plain one, or one per partition and the plain one

	controlMu   sync.Mutex // of lastControl
	lastControl int        // shard of the last control message
}

var errRunTwice = errors.New("redis: the broker has been run before, or closed")

func newBroker(e *Engine) *Broker {
	b := &Broker{
		engine: e, node: uuid.NewString(),
		lifecycle: enginekit.Lifecycle{ErrRunTwice: errRunTwice, ErrNotRunning: errNotConnected, ErrClosed: errClosed},
	}
	b.kinds = &commands.Streams
	if e.cfg.HistoryUseLists {
		b.kinds = &commands.Lists
	}
	b.maps = &mapEntries{broker: b}
	return b
}

// Describe implements broker.Engine.
func (b *Broker) Describe() broker.Traits {
	t := broker.Traits{
		Name: "redis", Health: b.Health, Metrics: b.metrics,
		History: true, Idempotency: true, Versions: true, Delta: true,
		Batch: b.PublishBatch, Positions: b.Positions, Presence: b.engine.presence, Control: b,
	}
	if !b.engine.cfg.HistoryUseLists {
		t.Maps, t.Expiry = b.maps, b.maps.Expiry
	}
	return t
}

// Run implements broker.Broker. It tries for Config.StartTimeout to connect. It fails if a shard cannot be reached,
// refuses, or lacks a command that the configuration needs; then the engine is closed.
func (b *Broker) Run(h broker.EventHandler) error {
	if err := b.lifecycle.Start(); err != nil {
		return err
	}
	ctx := context.Background()
	shards, err := b.engine.connect(ctx)
	if err == nil {
		b.handler, b.shards = h, shards
		err = b.engine.retry(ctx, b.start)
	}
	if err == nil {
		if err = b.lifecycle.Running(nil); err != nil {
			b.stop()
		}
	}
	if err != nil {
		b.lifecycle.Close()
		return errors.Join(err, b.engine.Close(ctx))
	}
	return nil
}

// start connects for PUB/SUB. After a failure it may be called again.
func (b *Broker) start(ctx context.Context) error {
	b.lifetime, b.end = context.WithCancel(context.Background())
	if b.control != nil {
		b.control.start()
	}
	b.receivers = make([][]*receiver, len(b.shards))
	for i, s := range b.shards {
		b.receivers[i] = b.newReceivers(s)
	}
	err := enginekit.AtOnce(b.receivers, func(receivers []*receiver) error { return b.startShard(ctx, receivers) })
	if err != nil {
		b.stop()
	}
	return err
}

// The last receiver of a shard gets control messages.
func (b *Broker) startShard(ctx context.Context, receivers []*receiver) error {
	err := enginekit.AtOnce(receivers, func(r *receiver) error { return r.conn.Start(ctx) })
	if err != nil || b.control == nil {
		return err
	}
	return receivers[len(receivers)-1].conn.Subscribe(ctx, b.control.channels()...)
}

func (b *Broker) stop() {
	b.end()
	_ = enginekit.AtOnce(slices.Concat(b.receivers...), func(r *receiver) error {
		r.conn.Close()
		return nil
	})
	b.background.Wait()
	if b.control != nil {
		b.control.stop()
	}
}

// Close implements broker.Broker. It closes the engine, its presence manager included, and waits for handler calls under
// way. If ctx ends before, Close returns its error, and the broker is freed when they return.
func (b *Broker) Close(ctx context.Context) error {
	if b.lifecycle.Close() != enginekit.StateRunning {
		return b.engine.Close(ctx)
	}
	return enginekit.Await(ctx, func() {
		b.stop()
		_ = b.engine.Close(ctx) // never fails
	})
}

func (b *Broker) running(ctx context.Context) ([]*shard, error) {
	if err := b.lifecycle.Check(ctx); err != nil {
		return nil, err
	}
	return b.shards, nil
}

func (b *Broker) locate(ctx context.Context, ch string) (*shard, uint64, error) {
	shards, err := b.running(ctx)
	if err != nil {
		return nil, 0, err
	}
	hash := format.Hash(ch)
	s := shards[format.Jump(hash, len(shards))]
	return s, hash, s.names.Check(ch)
}

// Subscribe implements broker.Broker. Concurrent calls share commands. While the connection for PUB/SUB of a shard is
// down, it fails at once.
func (b *Broker) Subscribe(ctx context.Context, channels ...string) error {
	return b.each(ctx, channels, (*receiver).subscribe)
}

// Unsubscribe implements broker.Broker. Events that have arrived before may still be delivered.
func (b *Broker) Unsubscribe(ctx context.Context, channels ...string) error {
	return b.each(ctx, channels, (*receiver).unsubscribe)
}

func (b *Broker) each(ctx context.Context, channels []string, do func(*receiver, context.Context, []string) error) error {
	if len(channels) == 1 {
		r, err := b.receiver(ctx, channels[0])
		if err != nil {
			return err
		}
		return do(r, ctx, channels)
	}
	parts := map[*receiver][]string{}
	for _, ch := range channels {
		r, err := b.receiver(ctx, ch)
		if err != nil {
			return err
		}
		parts[r] = append(parts[r], ch)
	}
	return enginekit.AtOnce(slices.Collect(maps.Keys(parts)), func(r *receiver) error { return do(r, ctx, parts[r]) })
}

var errNoPubSub = errors.New("redis: SkipPubSub is set: there are no subscriptions")

func (b *Broker) receiver(ctx context.Context, ch string) (*receiver, error) {
	s, hash, err := b.locate(ctx, ch)
	if err != nil {
		return nil, err
	}
	if b.engine.cfg.SkipPubSub {
		return nil, errNoPubSub
	}
	return b.receivers[s.index][s.names.Partition(hash)], nil
}

// Health is Traits.Health: one element per shard.
func (b *Broker) Health() []broker.Health {
	if _, err := b.running(context.Background()); err != nil {
		return []broker.Health{{Part: "redis", Err: err}}
	}
	list := make([]broker.Health, len(b.shards))
	for i := range list {
		list[i] = b.health(i)
	}
	return list
}

func (b *Broker) health(shard int) broker.Health {
	h := broker.Health{Part: b.shards[shard].client.Name()}
	for _, r := range b.receivers[shard] {
		delay, err := r.conn.Health()
		h.Delay = max(h.Delay, delay)
		h.Reconnects += r.conn.Stats().Reconnects
		h.Err = cmp.Or(h.Err, err, r.markFailures.last())
	}
	if primary := b.shards[shard].client.Primary(); primary != "" && h.Err != nil { // the part has the addresses of Sentinels
		h.Err = fmt.Errorf("primary %s: %w", primary, h.Err)
	}
	return h
}
