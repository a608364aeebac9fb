package compose

import (
	"context"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// publishBatch is Traits.Batch. Each engine gets its items as one batch, in their order;
// an engine that takes no batches gets them one by one.
func (b *composition) publishBatch(ctx context.Context, batch []broker.BatchItem) {
	if only, ok := b.only(len(batch), func(i int) string { return batch[i].Channel }); ok {
		b.publishTo(ctx, only, batch)
		return
	}
	groups := make([]group, len(b.engines))
	for at := range batch {
		groups[b.of(batch[at].Channel)].add(at, batch[at])
	}
	b.parallel(func(i int) bool { return len(groups[i].items) > 0 }, func(i int) {
		b.publishTo(ctx, i, groups[i].items)
	})
	for _, g := range groups {
		for k, at := range g.at {
			batch[at].Result, batch[at].Err = g.items[k].Result, g.items[k].Err
			batch[at].Unkept = true // the engine had a copy
		}
	}
}

// group is an engine's part of a batch.
type group struct {
	items []broker.BatchItem
	at    []int // where the items are in the batch
	// shared was the publication of the latest item before it was copied.
	shared *channel.Publication
}

// add appends an item with a publication of the group's own: items of a batch may
// share one, but it cannot be owned by several engines.
func (g *group) add(at int, item broker.BatchItem) {
	if item.Pub == g.shared && g.shared != nil {
		item.Pub = g.items[len(g.items)-1].Pub
	} else if item.Pub != nil {
		own := *item.Pub
		g.shared, item.Pub = item.Pub, &own
	}
	g.items, g.at = append(g.items, item), append(g.at, at)
}

// publishTo publishes items of one engine.
func (b *composition) publishTo(ctx context.Context, engine int, batch []broker.BatchItem) {
	if publish := b.traits[engine].Batch; publish != nil {
		publish(ctx, batch)
		return
	}
	for i := range batch {
		item := &batch[i]
		item.Result, item.Err = b.engines[engine].Publish(ctx, item.Channel, item.Pub, item.Options)
	}
}

// positions is Traits.Positions. Engines that read no positions are asked for histories.
func (b *composition) positions(ctx context.Context, channels []string) []broker.PositionResult {
	if only, ok := b.only(len(channels), func(i int) string { return channels[i] }); ok {
		return b.positionsOf(ctx, only, channels)
	}
	type part struct {
		channels []string
		at       []int
	}
	parts := make([]part, len(b.engines))
	for at, ch := range channels {
		p := &parts[b.of(ch)]
		p.channels, p.at = append(p.channels, ch), append(p.at, at)
	}
	out := make([]broker.PositionResult, len(channels))
	b.parallel(func(i int) bool { return len(parts[i].channels) > 0 }, func(i int) {
		for k, result := range b.positionsOf(ctx, i, parts[i].channels) {
			out[parts[i].at[k]] = result
		}
	})
	return out
}

// positionsOf reads positions at one engine.
func (b *composition) positionsOf(ctx context.Context, engine int, channels []string) []broker.PositionResult {
	if read := b.traits[engine].Positions; read != nil {
		return read(ctx, channels)
	}
	out := make([]broker.PositionResult, len(channels))
	for i, ch := range channels {
		h, err := b.engines[engine].History(ctx, ch, broker.HistoryFilter{})
		out[i] = broker.PositionResult{Top: h.Top, Err: err}
	}
	return out
}

// parallel calls do for every engine that is wanted, at once: they wait for
// different backends.
func (b *composition) parallel(want func(i int) bool, do func(i int)) {
	var wg sync.WaitGroup
	for i := range b.engines {
		if want(i) {
			wg.Go(func() { do(i) })
		}
	}
	wg.Wait()
}
