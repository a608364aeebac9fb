package protocol

import "fmt"

// Programs match on the texts and numbers of this file, so they never change. A colon and a
// reason may follow the text of an error. Sections are those of codes.md of the
// specification.

// Error implements error: a handler may return an Error, and the client gets its code,
// message and temporary flag. (The struct is generated from the schema.)
func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errors of the protocol (codes.md section 2). Codes from 400 to 1999 are the application's.
var (
	ErrorInternal              = &Error{Code: 100, Message: "internal server error", Temporary: true}
	ErrorUnauthorized          = &Error{Code: 101, Message: "unauthorized"}
	ErrorUnknownChannel        = &Error{Code: 102, Message: "unknown channel"}
	ErrorPermissionDenied      = &Error{Code: 103, Message: "permission denied"}
	ErrorMethodNotFound        = &Error{Code: 104, Message: "method not found"}
	ErrorAlreadySubscribed     = &Error{Code: 105, Message: "already subscribed"}
	ErrorLimitExceeded         = &Error{Code: 106, Message: "limit exceeded"}
	ErrorBadRequest            = &Error{Code: 107, Message: "bad request"}
	ErrorNotAvailable          = &Error{Code: 108, Message: "not available"}
	ErrorTokenExpired          = &Error{Code: 109, Message: "token expired"}
	ErrorExpired               = &Error{Code: 110, Message: "expired"}
	ErrorTooManyRequests       = &Error{Code: 111, Message: "too many requests", Temporary: true}
	ErrorUnrecoverablePosition = &Error{Code: 112, Message: "unrecoverable position"}
	ErrorConcurrentPagination  = &Error{Code: 113, Message: "concurrent pagination", Temporary: true}
)

// Error implements error: a handler may return a Disconnect to close the connection with its
// code and reason. (The struct is generated from the schema.)
func (d Disconnect) Error() string { return fmt.Sprintf("disconnect %d: %s", d.Code, d.Reason) }

// Terminal reports whether clients stay disconnected after this code.
func (d Disconnect) Terminal() bool {
	return d.Code >= 3500 && d.Code < 4000 || d.Code >= 4500 && d.Code < 5000
}

// Disconnects of the protocol (codes.md section 3). Codes from 4000 to 4499
// (clients reconnect) and 4500 to 4999 (they do not) are the application's; its
// reasons must not be empty, parse as JSON, or exceed 123 bytes.
var (
	// DisconnectConnectionClosed is internal: the peer went away. Never sent.
	DisconnectConnectionClosed      = Disconnect{Code: 3000, Reason: "connection closed"}
	DisconnectShutdown              = Disconnect{Code: 3001, Reason: "shutdown"}
	DisconnectServerError           = Disconnect{Code: 3004, Reason: "internal server error"}
	DisconnectExpired               = Disconnect{Code: 3005, Reason: "connection expired"}
	DisconnectSubExpired            = Disconnect{Code: 3006, Reason: "subscription expired"}
	DisconnectSlow                  = Disconnect{Code: 3008, Reason: "slow"}
	DisconnectWriteError            = Disconnect{Code: 3009, Reason: "write error"}
	DisconnectInsufficientState     = Disconnect{Code: 3010, Reason: "insufficient state"}
	DisconnectForceReconnect        = Disconnect{Code: 3011, Reason: "force reconnect"}
	DisconnectNoPong                = Disconnect{Code: 3012, Reason: "no pong"}
	DisconnectTooManyRequests       = Disconnect{Code: 3013, Reason: "too many requests"}
	DisconnectStateInvalidated      = Disconnect{Code: 3014, Reason: "state invalidated"}
	DisconnectInvalidToken          = Disconnect{Code: 3500, Reason: "invalid token"}
	DisconnectBadRequest            = Disconnect{Code: 3501, Reason: "bad request"}
	DisconnectStale                 = Disconnect{Code: 3502, Reason: "stale"}
	DisconnectForceNoReconnect      = Disconnect{Code: 3503, Reason: "force disconnect"}
	DisconnectConnectionLimit       = Disconnect{Code: 3504, Reason: "connection limit"}
	DisconnectChannelLimit          = Disconnect{Code: 3505, Reason: "channel limit"}
	DisconnectInappropriateProtocol = Disconnect{Code: 3506, Reason: "inappropriate protocol"}
	DisconnectPermissionDenied      = Disconnect{Code: 3507, Reason: "permission denied"}
	DisconnectNotAvailable          = Disconnect{Code: 3508, Reason: "not available"}
	DisconnectTooManyErrors         = Disconnect{Code: 3509, Reason: "too many errors"}
)

// Unsubscribes of the protocol (codes.md section 4). From code 2500 clients
// subscribe again. Codes below 2000 are internal and never sent.
var (
	UnsubscribeClient            = Unsubscribe{Code: 0, Reason: "client unsubscribed"}
	UnsubscribeDisconnect        = Unsubscribe{Code: 1, Reason: "client disconnected"}
	UnsubscribeServer            = Unsubscribe{Code: 2000, Reason: "server unsubscribe"}
	UnsubscribeInsufficientState = Unsubscribe{Code: 2500, Reason: "insufficient state"}
	UnsubscribeExpired           = Unsubscribe{Code: 2501, Reason: "subscription expired"}
	UnsubscribeStateInvalidated  = Unsubscribe{Code: 2502, Reason: "state invalidated"}
)

// Encoding of a connection, fixed for its lifetime.
type Encoding uint8

const (
	JSON Encoding = iota
	Protobuf
)

func (e Encoding) String() string {
	if e == Protobuf {
		return "protobuf"
	}
	return "json"
}
