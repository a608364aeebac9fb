package api

import (
	"context"
	"time"
)

// Observer hears of the requests that come one way into the API. Its methods are called
// from any goroutine and must not block.
type Observer interface {
	// Executed tells how long a command took, and the result of Execute. The result is valid during the call only.
	Executed(m Method, took time.Duration, res Result, err error)
	// Called tells how long an extension took that an rpc command has called, which was not in a batch. Executed
	// is told of the command as well.
	Called(extension string, took time.Duration)
	// Failed tells of a request that was not executed, or of a result that did not make
	// it to an answer.
	Failed(m Method, s Stage)
}

// Observed tells an observer, which may be nil, about the commands of one way into the API.
type Observed struct{ By Observer }

// Execute runs a request for m.
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

// Called is Observer.Called for a request that took a time, if it has called an extension.
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

// Stage of a request, other than executing it, that can fail.
type Stage string

// Stages.
const (
	StageRead   Stage = "read_body"
	StageDecode Stage = "unmarshal"
	StageEncode Stage = "marshal"
)

// Tracer makes a span of each request that comes one way into the API. Its methods may be called from any
// goroutine.
type Tracer interface {
	// Begin begins the span of a request that will be executed with the returned context. from has the fields of
	// the request, which may name the trace of its sender.
	Begin(ctx context.Context, m Method, r Request, from Fields) (context.Context, Span)
	// Failed makes the span of a request that failed before its execution, at stage s.
	Failed(ctx context.Context, m Method, s Stage, from Fields)
}

// Fields of a request: headers, or metadata. Letter case does not matter.
type Fields interface{ Get(name string) string }

// Span of a request.
type Span interface {
	// End ends the span with the results of Execute, and with the status of the answer: the HTTP status, or the code of
	// gRPC.
	End(status int, res Result, err error)
	// Abort ends the span of a request that panicked. After End it does nothing.
	Abort()
}

// Channel returns the one channel that a request names; empty if it names none, or several.
func Channel(r Request) string {
	_, ch := r.target()
	return ch
}
