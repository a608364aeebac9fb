package api

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Errors of the API. Some messages differ from the client protocol, and none is temporary.
var (
	// ErrInternal: something failed in the server, or nodes did not answer. A retry may help.
	ErrInternal         = &Error{100, "internal server error"}
	ErrUnknownChannel   = &Error{102, "unknown channel"}
	ErrPermissionDenied = &Error{103, "permission denied"}
	ErrNotFound         = &Error{104, "not found"}
	ErrBadRequest       = &Error{107, "bad request"}
	ErrNotAvailable     = &Error{108, "not available"}
	// ErrUnrecoverablePosition: the position in a history request has another epoch.
	ErrUnrecoverablePosition = &Error{112, "unrecoverable position"}
	// ErrConflict is reserved.
	ErrConflict = &Error{113, "conflict"}
)

// AsError returns the *Error in err, else ErrInternal.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return ErrInternal
}

// fromNode maps the error of a node. Codes that this API does not have become ErrInternal. The message names nodes
// without an answer.
func fromNode(err error) *Error {
	if errors.Is(err, gyro.ErrNoAnswer) {
		return &Error{ErrInternal.Code, ErrInternal.Message + ": " + strings.TrimPrefix(err.Error(), "gyro: ")}
	}
	var p *protocol.Error
	if !errors.As(err, &p) || p == nil {
		return AsError(err)
	}
	for _, e := range []*Error{ErrUnknownChannel, ErrNotFound, ErrBadRequest, ErrNotAvailable, ErrUnrecoverablePosition} {
		if e.Code == p.Code {
			return e
		}
	}
	return ErrInternal
}

// AppendError appends the JSON of an error.
func AppendError(dst []byte, e *Error) []byte { return e.appendJSON(dst) }
