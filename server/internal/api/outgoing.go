package api

import (
	"bytes"
	"context"
	"sync"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/server/internal/channels"
)

// batch collects publications for the node. It is reused: a command allocates
// none of this.
type batch struct {
	// channels are in force for all items.
	channels *channels.Resolver
	items    []gyro.BatchPublication
	// most is the number of publications that are gathered: Config.BatchSize.
	most int
	// own are options for items that share none. They stay where they are, as items
	// refer to them.
	own []*[ownChunk]gyro.PublishOptions
	// plain are the kinds of channels that publications without options go to.
	plain kinds
	// shared tells that data lies in memory that other commands share.
	shared bool
	// id tells the caller of put which item is which.
	id []int
}

const ownChunk = 64

var batches = sync.Pool{New: func() any { return &batch{plain: kinds{options: &noPublishOptions}} }}

func (e *Executor) newBatch() *batch {
	b := batches.Get().(*batch)
	b.channels, b.most = e.channels(), e.batchSize
	return b
}

// release gives back a batch that has been flushed. One that a panic left behind is
// not reused.
func (b *batch) release() {
	// The pool keeps neither a configuration nor the memory of a request alive.
	b.channels, b.shared, b.plain = nil, false, kinds{options: b.plain.options}
	batches.Put(b)
}

func (b *batch) full() bool { return len(b.items) >= b.most }

// put adds a publication, unless the batch is full. The caller must not change the options before the flush.
func (b *batch) put(id int, ch string, data []byte, o *gyro.PublishOptions) {
	if b.shared && o.HistorySize > 0 {
		data = bytes.Clone(data) // or history would keep the other commands in memory, too
	}
	b.id = append(b.id, id)
	b.items = append(b.items, gyro.BatchPublication{Channel: ch, Data: data, Options: o})
}

// options returns room for the options of the next item.
func (b *batch) options() *gyro.PublishOptions {
	i := len(b.items)
	if i/ownChunk == len(b.own) {
		b.own = append(b.own, new([ownChunk]gyro.PublishOptions))
	}
	return &b.own[i/ownChunk][i%ownChunk]
}

// add checks a publish command and puts its publication.
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

// addPlain is add for a command without options. Like the publications of a broadcast, such commands share the options
// of their channels.
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

// flush publishes the items in their order, and calls done with the outcome of each; a failure has been logged.
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
	// The pool holds on to nothing.
	for i := 0; i < len(items) && i/ownChunk < len(b.own); i += ownChunk {
		clear(b.own[i/ownChunk][:])
	}
	clear(items)
	b.items, b.id = items[:0], b.id[:0]
}
