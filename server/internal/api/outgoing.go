package api

import (
	"bytes"
	"context"
	"sync"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// batch collects publications for the node. It is reused, so a command allocates none of this.
type batch struct {
	channels *channels.Resolver
	items    []gyro.BatchPublication
	// limit is Config.BatchSize.
	limit int
	// own are options of single items. They do not move, as items refer to them.
	own []*[ownChunk]gyro.PublishOptions
	// plain are the kinds of channels of publications without options.
	plain kinds
	// shared: data is in memory that other commands share.
	shared bool
	// id identifies the items for the caller of put.
	id []int
}

const ownChunk = 64

var batches = sync.Pool{New: func() any { return &batch{plain: kinds{options: &noPublishOptions}} }}

func (e *Executor) newBatch() *batch {
	b := batches.Get().(*batch)
	b.channels, b.limit = e.channels(), e.batchSize
	return b
}

// release gives back a flushed batch. After a panic a batch is not reused.
func (b *batch) release() {
	b.channels, b.shared, b.plain = nil, false, kinds{options: b.plain.options}
	batches.Put(b)
}

func (b *batch) full() bool { return len(b.items) >= b.limit }

// put adds a publication to a batch that is not full. The options must not change before the flush.
func (b *batch) put(id int, ch string, data []byte, o *gyro.PublishOptions) {
	if b.shared && o.HistorySize > 0 {
		data = bytes.Clone(data) // or history would keep the other commands in memory, too
	}
	b.id = append(b.id, id)
	b.items = append(b.items, gyro.BatchPublication{Channel: ch, Data: data, Options: o})
}

// options returns memory for the options of the next item.
func (b *batch) options() *gyro.PublishOptions {
	i := len(b.items)
	if i/ownChunk == len(b.own) {
		b.own = append(b.own, new([ownChunk]gyro.PublishOptions))
	}
	return &b.own[i/ownChunk][i%ownChunk]
}

func (b *batch) add(id int, r *PublishRequest) error {
	if r.Channel == "" {
		return errNoChannel
	}
	o := r.Options.orNone()
	data, err := payload(r.Data, o.B64Data)
	if err != nil {
		return err
	}
	ch, err := named(b.channels, r.Channel)
	if err != nil {
		return err
	}
	if err := check(ch, data); err != nil {
		return err
	}
	own := b.options()
	*own = o.in(ch)
	b.put(id, r.Channel, data, own)
	return nil
}

// addPlain is add for a command without options. Such commands share the options of their channels.
func (b *batch) addPlain(id int, r *PublishRequest) error {
	k, err := b.plain.of(b.channels, r.Channel)
	if err != nil {
		return err
	}
	if err := check(k.channel, r.Data); err != nil {
		return err
	}
	b.put(id, r.Channel, r.Data, &k.publish)
	return nil
}

// flush publishes the items in order, and calls done for each; failures have been logged.
func (b *batch) flush(ctx context.Context, e *Executor, m Method, done func(id int, res PublishResult, err *Error)) {
	if len(b.items) == 0 {
		return
	}
	items := b.items
	e.node.PublishBatch(ctx, items)
	for i := range items {
		p := &items[i]
		var failure *Error
		if p.Err != nil {
			failure = e.failed(ctx, m, p.Channel, p.Err)
		}
		at := p.Result.Position
		done(b.id[i], PublishResult{Offset: at.Offset, Epoch: at.Epoch}, failure)
	}
	for i := 0; i < len(items) && i/ownChunk < len(b.own); i += ownChunk {
		clear(b.own[i/ownChunk][:])
	}
	clear(items)
	b.items, b.id = items[:0], b.id[:0]
}
