package api

import (
	"context"
	"sync"
	"sync/atomic"
)

// maxConcurrent is how many commands of a parallel batch run at the same time, not counting publish commands.
const maxConcurrent = 1024

// Batch executes a batch command. Publish commands in a row, or all of them if the order does not matter, go to the node
// together.
func (e *Executor) Batch(ctx context.Context, r *BatchRequest) (*BatchResponse, error) {
	res := &BatchResponse{Replies: make([]Reply, len(r.Commands))}
	e = e.frozen()
	p := publishes{e: e, replies: res.Replies, batch: e.newBatch()}
	p.batch.shared = true
	if r.Parallel {
		wait := e.parallel(ctx, r.Commands, res.Replies)
		defer wait()
	}
	for i := range r.Commands {
		c := &r.Commands[i]
		if publish, ok := c.Request.(*PublishRequest); ok {
			p.add(ctx, i, publish)
		} else if !r.Parallel {
			p.flush(ctx)
			res.Replies[i].Result = e.reply(ctx, c)
		}
	}
	p.flush(ctx)
	p.batch.release()
	return res, nil
}

// parallel starts the commands that do not publish; wait returns when all are done.
func (e *Executor) parallel(ctx context.Context, commands []Command, replies []Reply) (wait func()) {
	var wg sync.WaitGroup
	var others []int
	for i := range commands {
		if _, ok := commands[i].Request.(*PublishRequest); !ok {
			others = append(others, i)
		}
	}
	var next atomic.Int64
	for range min(maxConcurrent, len(others)) {
		wg.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(others)); k = next.Add(1) - 1 {
				i := others[k]
				replies[i].Result = e.reply(ctx, &commands[i])
			}
		})
	}
	return wg.Wait
}

type publishes struct {
	e       *Executor
	replies []Reply
	batch   *batch
	results results
}

func (p *publishes) add(ctx context.Context, i int, r *PublishRequest) {
	if err := p.e.permit(ctx, r); err != nil {
		p.replies[i].Result = err
		return
	}
	var err error
	if r.Options == nil {
		err = p.batch.addPlain(i, r)
	} else {
		err = p.batch.add(i, r)
	}
	if err != nil {
		p.replies[i].Result = p.e.failed(ctx, MethodPublish, r.Channel, err)
		return
	}
	if p.batch.full() {
		p.flush(ctx)
	}
}

func (p *publishes) flush(ctx context.Context) {
	p.batch.flush(ctx, p.e, MethodPublish, func(i int, res PublishResult, err *Error) {
		if err != nil {
			p.replies[i].Result = err
			return
		}
		p.replies[i].Result = p.results.copyOf(res, len(p.batch.items))
	})
}

type results struct{ free []PublishResult }

// copyOf returns a copy of res. If needed, it makes memory for room copies.
func (s *results) copyOf(res PublishResult, room int) *PublishResult {
	if res == (PublishResult{}) {
		return nowhere
	}
	if len(s.free) == 0 {
		s.free = make([]PublishResult, room)
	}
	copied := &s.free[0]
	*copied, s.free = res, s.free[1:]
	return copied
}

var nowhere = new(PublishResult)

func (e *Executor) reply(ctx context.Context, c *Command) Result {
	switch r := c.Request.(type) {
	case nil:
		if c.Null {
			return e.failed(ctx, MethodBatch, "", errNull)
		}
		return e.failed(ctx, MethodBatch, "", errCommand)
	case *BatchRequest:
		return e.failed(ctx, MethodBatch, "", errCommand)
	default:
		res, err := e.Execute(ctx, r)
		if err != nil {
			return AsError(err)
		}
		return res
	}
}
