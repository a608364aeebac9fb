package engines

import (
	"context"
	"sync"

	"github.com/gyrohq/gyro/broker"
	"github.com/gyrohq/gyro/channel"
	"github.com/gyrohq/gyro/internal/validate"
	"github.com/gyrohq/gyro/protocol"
)

// PublishBatch publishes a batch in its order, at most size elements at once by publish, and sets their Result and Err.
func PublishBatch(ctx context.Context, by *validate.Rules, publish func(context.Context, []broker.BatchItem), batch []channel.BatchPublication, size int) {
	r := batchParts.Get().(*batchPart)
	r.rules = by
	for len(batch) > 0 {
		part := batch[:min(len(batch), size)]
		batch = batch[len(part):]
		r.publish(ctx, publish, part)
	}
	r.rules = nil
	batchParts.Put(r) // not deferred: after a panic of the broker, r is garbage
}

type batchPart struct {
	rules *validate.Rules
	items []broker.BatchItem
	of    []int // for each item the index of its element
	pubs  slabs
}

var batchParts = sync.Pool{New: func() any { return new(batchPart) }}

func (r *batchPart) publish(ctx context.Context, publish func(context.Context, []broker.BatchItem), batch []channel.BatchPublication) {
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

// fill returns the number of its items. Consecutive elements with the same data and options share a publication, as in a
// broadcast without history. Publications without history share allocations.
func (r *batchPart) fill(batch []channel.BatchPublication) (n int) {
	var last *channel.BatchPublication
	var known batchFindings
	at := r.rules.Clocks.Stamp()
	for i := range batch {
		p := &batch[i]
		item, o := &r.items[n], options(p)
		item.Channel, item.Options = p.Channel, *o
		if p.Err = r.check(item, o, p.Data, &known); p.Err != nil {
			p.Result, *item = channel.PublishResult{}, broker.BatchItem{}
			continue
		}
		kept := item.Options.Kept()
		switch {
		case !kept && last != nil && options(last) == o && same(last.Data, p.Data):
			item.Pub = r.items[n-1].Pub
		case kept:
			item.Pub, last = new(o.Publication(p.Data)), nil // its offset counts in one stream only
			item.Pub.Checked = known.covers(p.Data)
		default:
			item.Pub, last = r.pubs.next(), p
			*item.Pub = o.Publication(p.Data)
			item.Pub.Checked = known.covers(p.Data)
		}
		item.Pub.Time = at
		r.of[n] = i
		n++
	}
	return n
}

type batchFindings struct {
	// options are right in every channel; json is the result of Rules.Publish for them.
	options *channel.PublishOptions
	json    bool
	// data was found to be JSON; plain is for channel.Publication.Checked.
	data  []byte
	plain bool
}

func (f *batchFindings) covers(data []byte) bool { return f.plain && same(f.data, data) }

func (r *batchPart) check(item *broker.BatchItem, o *channel.PublishOptions, data []byte, f *batchFindings) error {
	if item.Channel == "" {
		return protocol.ErrorBadRequest
	}
	json := f.json
	if f.options != o {
		var err error
		if json, err = r.rules.Publish(item.Channel, &item.Options); err != nil {
			return err
		}
		if r.rules.Channel == nil && (o.HistorySize > 0 || o.SkipHistory) {
			f.options, f.json = o, json
		}
	}
	if !json || same(f.data, data) {
		return nil
	}
	plain, err := validate.Payload(item.Channel, data)
	if err == nil {
		f.data, f.plain = data, plain
	}
	return err
}

func same(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
