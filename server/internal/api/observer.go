package api

import (
	"context"
	"time"
)

// Observer gets the requests of one protocol. Any goroutine calls it; it must not block.
type Observer interface {
	// Executed gets the duration and the result of Execute, which is valid during the call only.
	Executed(m Method, took time.Duration, res Result, err error)
	// Called gets the duration of an extension that an rpc command outside of a batch has called, in addition to
	// Executed.
	Called(extension string, took time.Duration)
	// Failed gets a request that was not executed, or a result that could not be sent.
	Failed(m Method, s Stage)
}

// Observed tells an observer, which may be nil, of the requests of one protocol.
type Observed struct{ By Observer }

// Execute runs a request.
func (o Observed) Execute(ctx context.Context, exec *Executor, m Method, r Request) (Result, error) {
	if o.By == nil {
		return exec.Execute(ctx, r)
	}
	begin := time.Now()
	res, err := exec.Execute(ctx, r)
	took := time.Since(begin)
	o.By.Executed(m, took, res, err)
	o.Called(exec, r, took)
	return res, err
}

// Called is Observer.Called if the request calls an extension.
func (o Observed) Called(exec *Executor, r Request, took time.Duration) {
	rpc, ok := r.(*RPCRequest)
	if !ok || o.By == nil {
		return
	}
	if _, known := exec.rpc[rpc.Method]; known {
		o.By.Called(rpc.Method, took)
	}
}

// Failed is Observer.Failed.
func (o Observed) Failed(m Method, s Stage) {
	if o.By != nil {
		o.By.Failed(m, s)
	}
}

// Stage of a request that can fail, other than its execution.
type Stage string

const (
	StageRead   Stage = "read_body"
	StageDecode Stage = "unmarshal"
	StageEncode Stage = "marshal"
)

// Tracer makes a span of each request of one protocol. Any goroutine may call it.
type Tracer interface {
	// Begin begins the span of a request, which the caller executes with the returned context. from may name the trace
	// of the sender.
	Begin(ctx context.Context, m Method, r Request, from Fields) (context.Context, Span)
	// Failed makes the span of a request that failed before its execution.
	Failed(ctx context.Context, m Method, s Stage, from Fields)
}

// Fields are headers or metadata. Letter case does not matter.
type Fields interface{ Get(name string) string }

// Span of a request.
type Span interface {
	// End ends the span. status is the HTTP status or the gRPC code.
	End(status int, res Result, err error)
	// Abort ends the span of a request that panicked. After End it does nothing.
	Abort()
}

// Channel returns the one channel that a request names, else "".
func Channel(r Request) string {
	_, ch := r.target()
	return ch
}
