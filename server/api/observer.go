package api

import "time"

// Observer hears of the requests that come one way into the API. Its methods are called
// from any goroutine and must not block.
type Observer interface {
	// Executed tells how long a command took, and what Execute returned. The result is
	// valid during the call only.
	Executed(m Method, took time.Duration, res Result, err error)
	// Failed tells of a request that was not executed, or of a result that did not make
	// it to an answer.
	Failed(m Method, s Stage)
}

// Stage of a request, other than executing it, that can fail.
type Stage string

// Stages.
const (
	StageRead   Stage = "read_body"
	StageDecode Stage = "unmarshal"
	StageEncode Stage = "marshal"
)
