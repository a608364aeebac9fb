// Package batch passes publications to an engine, many at a time. Publications share
// allocations, and those that the engine has not kept are used again.
package batch

import (
	"context"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/protocol"
)

// Publish publishes the elements of a batch in their order, at most size of them at once, and
// sets the Result and Err of each. publish is broker.Traits.Batch.
func Publish(ctx context.Context, publish func(context.Context, []broker.BatchItem), batch []channel.BatchPublication, size int) {
	r := rounds.Get().(*round)
	for len(batch) > 0 {
		part := batch[:min(len(batch), size)]
		batch = batch[len(part):]
		r.publish(ctx, publish, part)
	}
	rounds.Put(r) // not deferred: after a panic of the broker, r is garbage
}

// round is a call of the engine.
type round struct {
	items []broker.BatchItem
	of    []int // for each item the index of its element
	pubs  slabs
}

var rounds = sync.Pool{New: func() any { return new(round) }}

func (r *round) publish(ctx context.Context, publish func(context.Context, []broker.BatchItem), batch []channel.BatchPublication) {
	if len(r.items) < len(batch) {
		r.items, r.of = make([]broker.BatchItem, len(batch)), make([]int, len(batch))
	}
	n := r.fill(batch)
	publish(ctx, r.items[:n])
	r.pubs.reclaim(r.items[:n])
	for i := range r.items[:n] {
		item, p := &r.items[i], &batch[r.of[i]]
		p.Result, p.Err = item.Result, item.Err
	}
	clear(r.items[:n]) // so that the pool keeps no payloads in memory
}

var noOptions channel.PublishOptions

func options(p *channel.BatchPublication) *channel.PublishOptions {
	if p.Options == nil {
		return &noOptions
	}
	return p.Options
}

// fill makes items of the elements that can be published, and returns their number.
// Consecutive elements with the same data and options share a publication, as in a broadcast
// without history. Publications that are not for history share allocations.
func (r *round) fill(batch []channel.BatchPublication) (n int) {
	var last *channel.BatchPublication
	for i := range batch {
		p := &batch[i]
		if p.Channel == "" {
			p.Result, p.Err = channel.PublishResult{}, protocol.ErrorBadRequest
			continue
		}
		item, o := &r.items[n], options(p)
		r.of[n] = i
		n++
		item.Channel, item.Options = p.Channel, *o
		switch {
		case o.Kept():
			item.Pub = new(o.Publication(p.Data))
		case last != nil && options(last) == o && same(last.Data, p.Data):
			item.Pub = r.items[n-2].Pub
		default:
			item.Pub = r.pubs.next()
			*item.Pub = o.Publication(p.Data)
		}
		last = p
	}
	return n
}

// same reports whether two payloads are the same piece of memory.
func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
