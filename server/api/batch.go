package api

import (
	"context"
	"sync"
	"sync/atomic"
)

// BatchRequest runs many commands (server-api.md section 7).
type BatchRequest struct {
	// Commands cannot contain a batch.
	Commands []Command
	// Parallel runs them concurrently, at most 1024 at a time, in no order.
	Parallel bool
}

// maxConcurrent is the most commands of a parallel batch that are in work at a
// time, not counting those that publish.
const maxConcurrent = 1024

// Command of a batch; without Request it is of no known method (code 104).
type Command struct {
	Request Request
	// Malformed as a whole (code 107).
	Malformed bool

	// channel, if not empty, and data are a publish command that was decoded and has
	// nothing else. They share memory with those of other commands.
	channel string
	data    []byte
}

// BatchResult has one reply per command, in the order of the commands.
type BatchResult struct {
	Replies []Reply
}

// Reply has an Error, or the Result of a Method.
type Reply struct {
	Error  *Error
	Method Method
	Result Result
}

// Batch executes a batch command. It never fails as a whole. Publish commands in
// a row, or all of them if the order does not matter, go to the node together.
func (e *Executor) Batch(ctx context.Context, r *BatchRequest) (*BatchResult, error) {
	res := &BatchResult{Replies: make([]Reply, len(r.Commands))}
	e = e.frozen()
	p := publishes{e: e, replies: res.Replies, batch: e.newBatch()}
	if r.Parallel {
		wait := e.parallel(ctx, r.Commands, res.Replies)
		defer wait()
	}
	for i := range r.Commands {
		c := &r.Commands[i]
		if c.publishes() {
			p.add(ctx, i, c)
		} else if !r.Parallel {
			p.flush(ctx)
			res.Replies[i] = e.reply(ctx, c)
		}
	}
	p.flush(ctx)
	p.batch.release()
	return res, nil
}

// parallel starts executing the commands that do not publish; wait returns when
// all are done.
func (e *Executor) parallel(ctx context.Context, commands []Command, replies []Reply) (wait func()) {
	var wg sync.WaitGroup
	var others []int
	for i := range commands {
		if !commands[i].publishes() {
			others = append(others, i)
		}
	}
	var next atomic.Int64
	for range min(maxConcurrent, len(others)) {
		wg.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(others)); k = next.Add(1) - 1 {
				i := others[k]
				replies[i] = e.reply(ctx, &commands[i])
			}
		})
	}
	return wg.Wait
}

func (c *Command) publishes() bool {
	if c.channel != "" {
		return true
	}
	_, ok := c.Request.(*PublishRequest)
	return ok
}

// publishes are the publish commands of a batch on their way to the node.
type publishes struct {
	e       *Executor
	replies []Reply
	batch   *batch
}

func (p *publishes) add(ctx context.Context, i int, c *Command) {
	var err error
	if c.channel != "" {
		err = p.batch.addPlain(i, c)
	} else {
		err = p.batch.add(i, c.Request.(*PublishRequest))
	}
	if err != nil {
		p.replies[i] = Reply{Error: AsError(err)}
		return
	}
	if p.batch.full() {
		p.flush(ctx)
	}
}

func (p *publishes) flush(ctx context.Context) {
	// One allocation for all: replies live and die together.
	var results []PublishResult
	p.batch.flush(ctx, p.e, MethodPublish, func(i int, res PublishResult, err *Error) {
		switch {
		case err != nil:
			p.replies[i].Error = err
			return
		case res == PublishResult{}:
			p.replies[i] = Reply{Method: MethodPublish, Result: nowhere}
			return
		case results == nil:
			results = make([]PublishResult, 0, len(p.batch.items))
		}
		results = append(results, res)
		p.replies[i] = Reply{Method: MethodPublish, Result: &results[len(results)-1]}
	})
}

// nowhere is the result of a publication without history.
var nowhere = new(PublishResult)

func (e *Executor) reply(ctx context.Context, c *Command) Reply {
	if c.Malformed {
		return Reply{Error: ErrBadRequest}
	}
	if c.Request == nil || c.Request.Method() == MethodBatch {
		return Reply{Error: ErrNotFound}
	}
	res, err := e.Execute(ctx, c.Request)
	if err != nil {
		return Reply{Error: AsError(err)}
	}
	return Reply{Method: c.Request.Method(), Result: res}
}
