package api

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gyrohq/gyro"
	"github.com/gyrohq/gyro/protocol"
)

func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Errors of the API. They differ from the errors of the client protocol: some messages differ, and none is temporary.
var (
	// ErrInternal: something failed in the server, or nodes of the cluster did not answer. Trying
	// again may help.
	ErrInternal = &Error{100, "internal server error"}
	// ErrUnknownChannel: the configuration has no namespace of the name that the channel begins
	// with.
	ErrUnknownChannel = &Error{102, "unknown channel"}
	// ErrPermissionDenied: the API key or the token has no right to the method or to the channel.
	ErrPermissionDenied = &Error{103, "permission denied"}
	// ErrNotFound: there is no such command or RPC method.
	ErrNotFound = &Error{104, "not found"}
	// ErrBadRequest: a value is missing, too large or malformed.
	ErrBadRequest = &Error{107, "bad request"}
	// ErrNotAvailable: the feature is off for the channel: presence, or history.
	ErrNotAvailable = &Error{108, "not available"}
	// ErrUnrecoverablePosition: the position that history is asked from is of another epoch.
	ErrUnrecoverablePosition = &Error{112, "unrecoverable position"}
	// ErrConflict: reserved; no method answers it.
	ErrConflict = &Error{113, "conflict"}
)

// AsError returns the *Error that err is or wraps; ErrInternal if there is none.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e
	}
	return ErrInternal
}

// fromNode maps the error of a node. Client protocol codes without a meaning in
// this API become ErrInternal. Nodes that have not answered are named to the caller.
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
