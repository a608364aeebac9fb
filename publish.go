package gyro

import (
	"context"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/pubslab"
	"github.com/gyrohq/gyro/protocol"
)

// Publish hands data to all subscribers of a channel. data is JSON if JSON
// clients subscribe, and must not be modified afterwards. When it returns, the
// broker has accepted the publication.
func (n *Node) Publish(ctx context.Context, ch string, data []byte, opts ...PublishOption) (PublishResult, error) {
	o := gather(opts)
	return n.publish(ctx, ch, data, &o)
}

func (n *Node) publish(ctx context.Context, ch string, data []byte, o *PublishOptions) (PublishResult, error) {
	if ch == "" {
		return PublishResult{}, protocol.ErrorBadRequest
	}
	return n.engines.Broker.Publish(ctx, ch, new(publication(data, o)), *o)
}

func publication(data []byte, o *PublishOptions) channel.Publication {
	return channel.Publication{Data: data, Info: o.Info, Tags: o.Tags, Version: o.Version}
}

// Broadcast publishes the same data into many channels; the results are in the
// order of channels. One failing channel does not affect the others.
func (n *Node) Broadcast(ctx context.Context, channels []string, data []byte, opts ...PublishOption) []BroadcastResult {
	o := gather(opts)
	results := make([]BroadcastResult, len(channels))
	size := n.BatchSize()
	batch := make([]BatchPublication, min(len(channels), size))
	for from := 0; from < len(channels); from += size {
		part := batch[:min(len(channels)-from, size)]
		for i := range part {
			part[i] = BatchPublication{Channel: channels[from+i], Data: data, Options: &o}
		}
		n.PublishBatch(ctx, part)
		for i := range part {
			results[from+i] = BroadcastResult{part[i].Result, part[i].Err}
		}
	}
	return results
}

// BatchPublication is an element of Node.PublishBatch.
type BatchPublication struct {
	Channel string
	// Data is as for Node.Publish. Elements may share it.
	Data []byte
	// Options are not changed, and may be shared; nil for none.
	Options *PublishOptions

	// Result and Err are set by PublishBatch.
	Result PublishResult
	Err    error
}

// PublishBatch publishes every element of batch as Publish would, in their order,
// and sets its Result and Err. One that fails does not affect the others. Brokers
// that are a broker.BatchPublisher get up to BatchSize at once.
func (n *Node) PublishBatch(ctx context.Context, batch []BatchPublication) {
	b, ok := n.engines.Broker.(broker.BatchPublisher)
	if !ok {
		for i := range batch {
			p := &batch[i]
			p.Result, p.Err = n.publish(ctx, p.Channel, p.Data, p.options())
		}
		return
	}
	r := rounds.Get().(*round)
	for len(batch) > 0 {
		part := batch[:min(len(batch), n.BatchSize())]
		batch = batch[len(part):]
		r.publish(ctx, b, part)
	}
	rounds.Put(r) // unless the broker panicked
}

var noOptions PublishOptions

func (p *BatchPublication) options() *PublishOptions {
	if p.Options == nil {
		return &noOptions
	}
	return p.Options
}

// BatchSize is how many publications PublishBatch and Broadcast hand to the engine at
// once: in this process as many as the processor's caches like, elsewhere so many
// that the round trips hardly count. More are split. Any goroutine may call it.
func (n *Node) BatchSize() int {
	if _, ok := n.engines.Broker.(broker.Local); ok {
		return 256
	}
	return 4096
}

// round is a call of a broker.BatchPublisher.
type round struct {
	items []broker.BatchItem
	// of tells which element an item is of.
	of   []int
	pubs pubslab.Slabs
}

var rounds = sync.Pool{New: func() any { return new(round) }}

// publish publishes the elements of one round.
func (r *round) publish(ctx context.Context, b broker.BatchPublisher, batch []BatchPublication) {
	if len(r.items) < len(batch) {
		r.items, r.of = make([]broker.BatchItem, len(batch)), make([]int, len(batch))
	}
	n := r.fill(batch)
	b.PublishBatch(ctx, r.items[:n])
	r.pubs.Reclaim(r.items[:n])
	for i := range r.items[:n] {
		item, p := &r.items[i], &batch[r.of[i]]
		p.Result, p.Err = item.Result, item.Err
	}
	clear(r.items[:n]) // the pool holds on to nothing
}

// fill makes items of the elements that can be published, and returns their
// number. What is the same for consecutive elements is made once: a broadcast
// without history has one publication. Publications that nobody remembers share
// allocations.
func (r *round) fill(batch []BatchPublication) (n int) {
	var last *BatchPublication
	for i := range batch {
		p := &batch[i]
		if p.Channel == "" {
			p.Result, p.Err = PublishResult{}, protocol.ErrorBadRequest
			continue
		}
		item, o := &r.items[n], p.options()
		r.of[n] = i
		n++
		item.Channel = p.Channel
		if last != nil && last.options() == o {
			item.Options = r.items[n-2].Options
			if !o.Kept() && same(last.Data, p.Data) {
				item.Pub = r.items[n-2].Pub
			}
		} else {
			item.Options = *o
		}
		switch {
		case item.Pub != nil:
		case !o.Kept():
			item.Pub = r.pubs.Next()
			*item.Pub = publication(p.Data, o)
		default:
			item.Pub = new(publication(p.Data, o))
		}
		last = p
	}
	return n
}

// same tells whether two payloads are the same piece of memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
