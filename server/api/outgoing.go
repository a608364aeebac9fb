package api

import (
	"context"
	"sync"

	"github.com/gyrohq/gyro"
)

// batchSize is how many publications are handed to the node at once.
const batchSize = 256

// batch collects publications for the node. It is reused: a command allocates
// none of this.
type batch struct {
	n     int
	items [batchSize]gyro.BatchPublication
	own   [batchSize]gyro.PublishOptions // for items that share none
	// id tells the caller of put which item is which.
	id [batchSize]int
}

var batches = sync.Pool{New: func() any { return new(batch) }}

func newBatch() *batch { return batches.Get().(*batch) }

// release gives back a batch that has been flushed. One that a panic left behind is
// not reused.
func (b *batch) release() { batches.Put(b) }

func (b *batch) full() bool { return b.n == batchSize }

// put adds a publication, unless the batch is full, whose options nobody changes
// before the flush.
func (b *batch) put(id int, ch string, data []byte, o *gyro.PublishOptions) {
	b.id[b.n] = id
	p := &b.items[b.n]
	p.Channel, p.Data, p.Options = ch, data, o
	b.n++
}

// add checks a publish command and puts its publication.
func (b *batch) add(e *Executor, id int, r *PublishRequest) error {
	if r.Channel == "" {
		return ErrBadRequest
	}
	data, err := payload(r.Data, r.B64Data)
	if err != nil {
		return err
	}
	c, err := e.options(r.Channel)
	if err != nil {
		return err
	}
	if !c.stream() || !validData(c.PublicationDataFormat, data) {
		return ErrBadRequest
	}
	o := &b.own[b.n]
	*o = r.options(&c)
	b.put(id, r.Channel, data, o)
	return nil
}

// flush publishes what was put, in that order, and calls done with the outcome of
// each; a failure has been logged.
func (b *batch) flush(ctx context.Context, e *Executor, m Method, done func(id int, res PublishResult, err *Error)) {
	if b.n == 0 {
		return
	}
	items := b.items[:b.n]
	e.node.PublishBatch(ctx, items)
	for i := range items {
		p := &items[i]
		var failure *Error
		if p.Err != nil {
			failure = AsError(e.failed(ctx, m, p.Channel, p.Err))
		}
		at := p.Result.Position
		done(b.id[i], PublishResult{Offset: at.Offset, Epoch: at.Epoch}, failure)
	}
	// The pool holds on to nothing.
	clear(items)
	clear(b.own[:b.n])
	b.n = 0
}
