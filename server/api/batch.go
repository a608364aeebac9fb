package api

import (
	"context"
	"sync"
	"sync/atomic"
)

// BatchRequest runs many commands (server-api.md section 7).
type BatchRequest struct {
	// Commands: nil for a command that is malformed as a whole (code 107). A batch
	// cannot contain a batch.
	Commands []*Command
	// Parallel runs them concurrently, at most 1024 at a time, in no order.
	Parallel bool
}

// Command of a batch; without Request it is of no known method (code 104).
type Command struct {
	Request Request
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

// Batch executes a batch command. It never fails as a whole.
func (e *Executor) Batch(ctx context.Context, r *BatchRequest) (*BatchResult, error) {
	res := &BatchResult{Replies: make([]Reply, len(r.Commands))}
	if !r.Parallel {
		for i, c := range r.Commands {
			res.Replies[i] = e.reply(ctx, c)
		}
		return res, nil
	}
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(maxConcurrent, len(r.Commands)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(r.Commands)); i = next.Add(1) - 1 {
				res.Replies[i] = e.reply(ctx, r.Commands[i])
			}
		})
	}
	wg.Wait()
	return res, nil
}

func (e *Executor) reply(ctx context.Context, c *Command) Reply {
	if c == nil {
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
