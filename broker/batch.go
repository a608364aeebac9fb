package broker

import (
	"context"

	"github.com/gyrohq/gyro/channel"
)

// BatchPublisher is a Broker that takes many publications at a lower price than
// as many calls of Publish have: one round trip, one look at the clock. It is
// optional: for other brokers the node calls Publish.
type BatchPublisher interface {
	Broker
	// PublishBatch does for each item, in their order, what Publish does, and sets
	// its Result and Err. An item that fails does not affect the others. The slice is
	// the caller's again when PublishBatch returns.
	PublishBatch(ctx context.Context, batch []BatchItem)
}

// BatchItem is one publication of a batch.
type BatchItem struct {
	Channel string
	// Pub is the broker's from here on. Items without history, by their Options, may
	// share one; so the broker must not change it after an item with it was handed to
	// a subscriber.
	Pub     *channel.Publication
	Options PublishOptions

	// Result and Err are what Publish would have returned.
	Result PublishResult
	Err    error
	// Unkept may be set by a broker that neither keeps Pub nor handed it to anybody:
	// then it is the caller's again, if this is so for all items that share it.
	Unkept bool
}
