package gyro

import (
	"cmp"
	"context"

	"github.com/gyrohq/gyro/internal/batch"
)

// Publish sends data to all subscribers of a channel. data must be JSON for subscribers
// with JSON connections, which are disconnected with 3506 otherwise, and must not be modified
// afterwards. When Publish returns without an error, the broker has accepted the publication.
// An empty channel is ErrorBadRequest.
func (n *Node) Publish(ctx context.Context, ch string, data []byte, o *PublishOptions) (PublishResult, error) {
	if ch == "" {
		return PublishResult{}, ErrorBadRequest
	}
	o = cmp.Or(o, &noOptions)
	return n.engines.Broker.Publish(ctx, ch, new(o.Publication(data)), *o)
}

var noOptions PublishOptions

// Broadcast publishes the same data into many channels; the results are in the order of
// channels. A failure in one channel does not affect the others.
func (n *Node) Broadcast(ctx context.Context, channels []string, data []byte, o *PublishOptions) []BroadcastResult {
	results := make([]BroadcastResult, len(channels))
	size := n.engines.Traits.BatchSize()
	elements := make([]BatchPublication, min(len(channels), size))
	for from := 0; from < len(channels); from += size {
		part := elements[:min(len(channels)-from, size)]
		for i := range part {
			part[i] = BatchPublication{Channel: channels[from+i], Data: data, Options: o}
		}
		n.PublishBatch(ctx, part)
		for i := range part {
			results[from+i] = BroadcastResult{part[i].Result, part[i].Err}
		}
	}
	return results
}

// PublishBatch publishes the elements as Publish would, in their order, and sets the Result
// and Err of each. A failure of one does not affect the others. Brokers that take batches
// get up to 4,096 elements at once.
func (n *Node) PublishBatch(ctx context.Context, elements []BatchPublication) {
	if publish := n.engines.Traits.Batch; publish != nil {
		batch.Publish(ctx, publish, elements, n.engines.Traits.BatchSize())
		return
	}
	for i := range elements {
		p := &elements[i]
		p.Result, p.Err = n.Publish(ctx, p.Channel, p.Data, p.Options)
	}
}
