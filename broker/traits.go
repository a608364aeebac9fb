package broker

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/channel"
)

// Engine is the common part of a Broker, a PresenceManager and a Controller.
type Engine interface {
	// Describe returns the traits of the engine, which do not change. Any goroutine may call it at any time, also before
	// Run.
	//
	// A type that embeds an engine to change some of its methods needs a Describe of its own: the functions in the
	// traits of the embedded engine do not know of the change.
	Describe() Traits
}

// Traits describe an engine, and list its features beyond the methods of its interface. Nodes, compose, the server and
// brokertest learn nothing about an engine in any other way. The zero value is an engine over a network that does
// nothing more. The node does without a missing feature, unless the field says otherwise. Any goroutine may call the
// functions at any time; they do not block, unless they take a context.
type Traits struct {
	// Name of this kind of engine, such as "redis": a lower-case letter, then lower-case letters, digits and
	// underscores. The names of its metrics contain it.
	Name string
	// Local is for engines that live in the process. If the broker and the presence manager of a node are both local,
	// the node establishes and ends subscriptions on the loops of its connections.
	//
	// A local engine promises that Subscribe, Unsubscribe and History of the broker, and every method of the presence
	// manager, wait for nothing but locks that are held briefly, and never during a call of the EventHandler.
	Local bool
	// Health is for engines that depend on something outside of the process. It returns one element for each part that
	// can fail by itself, such as a shard, always in the same order. Nil: the engine always works.
	Health func() []Health
	// Metrics returns the counts of the engine, for monitoring. Nil: nothing.
	Metrics func() []Metric
	// Expiry tells how the engine removes expired entries of maps. Nil: the engine need not look for them.
	Expiry func() Expiry

	// History says that the broker keeps streams. Without it, History and RemoveHistory fail with
	// protocol.ErrorNotAvailable, and Publish ignores the size and TTL of history: every publication has the offset 0.
	History bool
	// Idempotency, Versions and Delta say that the broker heeds IdempotencyKey, Publication.Version and
	// PublishOptions.Delta (it delivers PublicationEvent.Prev). Otherwise it ignores them. Versions and Delta need
	// History.
	Idempotency, Versions, Delta bool
	// Batch publishes many publications at a lower price. For each item, in their order, it does what Publish does, and
	// sets Result and Err. An item that fails does not affect the others. The slice belongs to the caller again when
	// Batch returns. Nil: the node calls Publish.
	Batch func(ctx context.Context, batch []BatchItem)
	// Positions reads the top positions of many streams as History with Limit 0 and this MetaTTL does, in the order of
	// channels, at a lower price. It may leave out the renewal of a position's life if the last one is an hour ago at
	// most, and not more than an eighth of MetaTTL. It reads them where they are written, as a copy may be behind. A
	// local broker reads each position at a moment when every publication up to it has been handed to the EventHandler.
	// Nil: the node calls History.
	Positions func(ctx context.Context, channels []string, metaTTL time.Duration) []PositionResult
	// Maps keeps the entries of map channels. It needs History. Nil: the broker has no maps.
	Maps Maps
	// Presence is the presence manager of the same engine, which nodes use unless they are given another one. It works
	// while the broker runs. Nil: the engine has none.
	Presence PresenceManager
	// Control carries the control messages of the nodes that share the broker; mostly it is the broker itself. Health
	// covers it. Nil: a node is alone, unless it is given another Controller.
	Control Controller
}

// Health of a part of an engine. An engine proves it by deliveries: every second it publishes a canary, which must come
// back on the way of publications. An engine with history also proves that it stores publications.
type Health struct {
	// Part names the part for operators, without secrets: "redis shard 0 (10.0.0.5:6379)".
	Part string
	// Delay is how long the newest canary took to come back; 0 before the first.
	Delay time.Duration
	// Err is why nothing is delivered now, or nothing stored, or nil.
	Err error
	// Reconnects counts the connections for receiving after the first.
	Reconnects uint64
}

// Expiry counts expired entries of maps.
type Expiry struct {
	// Removed counts entries that this node has removed, Failures its looks for them that failed.
	Removed, Failures uint64
	// Lag is how long ago the last look began that left no entry behind, so no expired entry is older. 0 if the node has
	// not looked yet, because it uses no maps.
	Lag time.Duration
}

// Metric is a number that an engine tells of itself.
type Metric struct {
	// Name, written like Traits.Name. The name of a counter ends in "_total". Prometheus gets it as
	// gyro_broker_ENGINE_NAME, where ENGINE is Traits.Name.
	Name string
	// Help is a sentence for operators. All metrics of one name have the same Help, Counter and names of labels.
	Help string
	// Counter is set if the number only grows, from the start of the engine on.
	Counter bool
	// Labels by their names; not "broker_name", which the server adds. Their values come from a small, fixed set: not
	// channels or users, for instance.
	Labels map[string]string
	Value  float64
}

// BatchItem is one publication of a batch.
type BatchItem struct {
	Channel string
	// Pub belongs to the broker from here on. Items whose Options ask for no history may share one; so the broker must
	// not change it after an item with it was handed to a subscriber.
	Pub     *channel.Publication
	Options PublishOptions

	// Result and Err are what Publish would have returned.
	Result PublishResult
	Err    error
	// A broker may set Unkept if it neither keeps Pub nor has handed it on. Pub belongs to the caller again if Unkept is
	// set in all items that share it. What Pub refers to, its Data say, does not.
	Unkept bool
}

// PositionResult is the position of one stream, unless Err is set.
type PositionResult struct {
	Top channel.StreamPosition
	Err error
}

// BatchSize is how many publications to hand to Batch at once: for a local broker no more than fit into the processor's
// caches, else so many that round trips hardly count.
func (t Traits) BatchSize() int {
	if t.Local {
		return 256
	}
	return 4096
}
