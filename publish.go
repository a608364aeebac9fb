package gyro

import (
	"context"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/engines"
	"github.com/gyrohq/gyro/internal/validate"
)

// Publish sends data to all subscribers of a channel. Without an error, the broker has accepted it.
//
// data must be JSON or empty, unless the channel or the node is Binary, and must not be modified afterwards.
// Config.Channel completes options that name no history. Data that is not JSON, and options that contradict each
// other, are errors that name the channel and the field; an empty channel is ErrorBadRequest.
func (n *Node) Publish(ctx context.Context, ch string, data []byte, o *PublishOptions) (PublishResult, error) {
	return n.publish(ctx, ch, data, false, o)
}

// publish is Publish. checked is for channel.Publication.
func (n *Node) publish(ctx context.Context, ch string, data []byte, checked bool, o *PublishOptions) (PublishResult, error) {
	if ch == "" {
		return PublishResult{}, ErrorBadRequest
	}
	opts := orZero(o)
	json, err := n.rules.Publish(ch, &opts)
	p := new(opts.Publication(data))
	p.Time = n.rules.Clocks.Stamp()
	if p.Checked = checked; err == nil && json && !checked {
		p.Checked, err = validate.Payload(ch, data)
	}
	if err != nil {
		return PublishResult{}, err
	}
	return n.engines.Broker.Publish(ctx, ch, p, opts)
}

// Maps changes and reads maps, with the checks of Publish. Without maps in the broker, the methods return
// ErrorNotAvailable.
func (n *Node) Maps() broker.Maps { return n.maps }

// Polls publishes values of keys in shared poll channels (SubscribeOptions.Poll). An empty channel or key, or no
// version, is ErrorBadRequest.
func (n *Node) Polls() channel.Polls { return n.polls }

// Broadcast publishes the same data into many channels, independently; the results are in their order.
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

// PublishBatch publishes the elements as Publish would, in their order and independently, and sets the Result and Err of
// each. Brokers that take batches get up to 4,096 elements at once.
func (n *Node) PublishBatch(ctx context.Context, elements []BatchPublication) {
	if publish := n.engines.Traits.Batch; publish != nil {
		engines.PublishBatch(ctx, n.rules, publish, elements, n.engines.Traits.BatchSize())
		return
	}
	for i := range elements {
		p := &elements[i]
		p.Result, p.Err = n.Publish(ctx, p.Channel, p.Data, p.Options)
	}
}
