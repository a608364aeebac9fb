package client

import (
	"errors"
	"fmt"

	"github.com/gyrohq/gyro/protocol"
)

// Error answers a command, with a Code and a Message. Codes from 100 on are the server's, see docs/codes.md; codes
// below are of this package. If it is Temporary, the command may be tried again. See "go doc
// github.com/gyrohq/gyro/protocol.Error".
type Error = protocol.Error

// Errors of this package.
var (
	// ErrTimeout: there was no connection, or no reply, within Options.Timeout. The server may have executed the command.
	ErrTimeout = &Error{Code: 1, Message: "timeout", Temporary: true}
	// ErrDisconnected: the client has no connection and does not try to get one.
	ErrDisconnected = &Error{Code: 3, Message: "client disconnected"}
	// ErrClosed: the client has been closed.
	ErrClosed = &Error{Code: 4, Message: "client closed"}
	// ErrUnsubscribed: the client is not subscribed to the channel, and does not try to be.
	ErrUnsubscribed = &Error{Code: 7, Message: "subscription unsubscribed"}
	// ErrLost: the connection was lost before the reply came. The server may have executed the command.
	ErrLost = &Error{Code: 11, Message: "connection closed", Temporary: true}
)

// ErrUnauthorized, wrapped by an error of GetToken, says that the user may not connect, or not subscribe.
var ErrUnauthorized = errors.New("unauthorized")

// Failures that events tell of.
var (
	errTransport  = &Error{Code: 2, Message: "transport closed", Temporary: true}
	errToken      = failure{5, "connection token fetch failed"}
	errRefresh    = failure{6, "connection token refresh failed"}
	errSubToken   = failure{8, "subscription token fetch failed"}
	errSubRefresh = failure{9, "subscription token refresh failed"}
	errDelta      = failure{13, "bad delta"}
	errState      = failure{14, "state fetch failed"}
	errData       = failure{15, "data fetch failed"}
)

type failure struct {
	code uint32
	text string
}

func (f failure) of(err error) *Error {
	return &Error{Code: f.code, Message: fmt.Sprintf("%s: %v", f.text, err), Temporary: true}
}

var errProtocol = errors.New("the server breaks the protocol")

func noResult(what string) error {
	return fmt.Errorf("client: %w: the answer to %s has no result", errProtocol, what)
}
