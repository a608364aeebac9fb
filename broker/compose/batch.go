package compose

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
)

// publishBatch is Traits.Batch. Each engine gets its items as one batch, in their order.
func (c *composition) publishBatch(ctx context.Context, batch []broker.BatchItem) {
	c.split(len(batch), func(i int) string { return batch[i].Channel }, func(engine int, at []int) {
		if at == nil {
			c.publishTo(ctx, engine, batch)
			return
		}
		items := pick(batch, at)
		ownPublications(items)
		c.publishTo(ctx, engine, items)
		for k, i := range at {
			batch[i].Result, batch[i].Err = items[k].Result, items[k].Err
			batch[i].Unkept = true // the engine had a copy
		}
	})
}

// ownPublications copies publications: items of a batch may share one, but several engines cannot own it.
func ownPublications(items []broker.BatchItem) {
	var original *channel.Publication // of the item before
	for i := range items {
		switch pub := items[i].Pub; {
		case pub == nil:
		case pub == original:
			items[i].Pub = items[i-1].Pub
		default:
			original, items[i].Pub = pub, new(*pub)
		}
	}
}

func (c *composition) publishTo(ctx context.Context, engine int, batch []broker.BatchItem) {
	if publish := c.traits[engine].Batch; publish != nil {
		publish(ctx, batch)
		return
	}
	for i := range batch {
		item := &batch[i]
		item.Result, item.Err = c.engines[engine].Publish(ctx, item.Channel, item.Pub, item.Options)
	}
}

func (c *composition) positions(ctx context.Context, channels []string, metaTTL time.Duration) []broker.PositionResult {
	out := make([]broker.PositionResult, len(channels))
	c.split(len(channels), func(i int) string { return channels[i] }, func(engine int, at []int) {
		results := c.positionsOf(ctx, engine, pick(channels, at), metaTTL)
		if at == nil {
			out = results
			return
		}
		for k, result := range results {
			out[at[k]] = result
		}
	})
	return out
}

func (c *composition) positionsOf(ctx context.Context, engine int, channels []string, metaTTL time.Duration) []broker.PositionResult {
	if read := c.traits[engine].Positions; read != nil {
		return read(ctx, channels, metaTTL)
	}
	out := make([]broker.PositionResult, len(channels))
	for i, ch := range channels {
		h, err := c.engines[engine].History(ctx, ch, broker.HistoryFilter{MetaTTL: metaTTL})
		out[i] = broker.PositionResult{Top: h.Top, Err: err}
	}
	return out
}
