package protocol

import "fmt"

// Programs match on the texts and numbers of this file, so they never change. A colon and a
// reason may follow the text of an error. docs/codes.md lists them.

// Check names the code and the range if it is not from 100 to 1999. Clients use the codes below for errors of their own,
// and none has a code from 2000 on.
func (e Error) Check() error { return inRange("an error", e.Code, 100, 1999) }

// Check names the code and the range if it is not from 3000 to 4999. Clients take any other code for a broken
// connection.
func (d Disconnect) Check() error { return inRange("a disconnect", d.Code, 3000, 4999) }

// Check names the code and the range if it is not from 2000 to 2999. The codes below are internal or the clients' own,
// those from 3000 on are disconnects.
func (u Unsubscribe) Check() error { return inRange("an unsubscribe", u.Code, 2000, 2999) }

func inRange(of string, code, from, to uint32) error {
	if code < from || code > to {
		return fmt.Errorf("the code of %s is from %d to %d, not %d", of, from, to, code)
	}
	return nil
}

// Error implements error: the client of a handler that returns an Error, or a pointer to one, gets its code, message and
// temporary flag.
func (e Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// Is reports whether target is an Error of the same code, or a pointer to one.
func (e Error) Is(target error) bool {
	switch t := target.(type) {
	case Error:
		return t.Code == e.Code
	case *Error:
		return t != nil && t.Code == e.Code
	}
	return false
}

// As lets errors.As find an Error by a pointer, and a pointer by an Error.
func (e Error) As(target any) bool { return as(e, target) }

func as[T Error | Disconnect](v T, target any) bool {
	switch t := target.(type) {
	case *T:
		*t = v
	case **T:
		*t = new(v)
	default:
		return false
	}
	return true
}

// Errors of the protocol. Codes from 400 to 1999 are the application's.
var (
	// ErrorInternal: a handler or an engine failed, or did not answer in time. Trying again may
	// help; the log of the server says more.
	ErrorInternal = &Error{Code: 100, Message: "internal server error", Temporary: true}
	// ErrorUnauthorized: for applications; Gyro itself does not send it.
	ErrorUnauthorized = &Error{Code: 101, Message: "unauthorized"}
	// ErrorUnknownChannel: the configuration has no namespace of the name that the channel begins
	// with.
	ErrorUnknownChannel = &Error{Code: 102, Message: "unknown channel"}
	// ErrorPermissionDenied: no rule permits the operation, or a subscription token is invalid.
	ErrorPermissionDenied = &Error{Code: 103, Message: "permission denied"}
	// ErrorMethodNotFound: no RPC method has this name.
	ErrorMethodNotFound = &Error{Code: 104, Message: "method not found"}
	// ErrorAlreadySubscribed: the connection is subscribed to the channel, perhaps by the server.
	ErrorAlreadySubscribed = &Error{Code: 105, Message: "already subscribed"}
	// ErrorLimitExceeded: too many channels on the connection, a new key in a map that takes no
	// more of clients, or an answer too large for its queue.
	ErrorLimitExceeded = &Error{Code: 106, Message: "limit exceeded"}
	// ErrorBadRequest: the request breaks a rule: the name of the channel, the format of the
	// payload, a value out of its bounds.
	ErrorBadRequest = &Error{Code: 107, Message: "bad request"}
	// ErrorNotAvailable: the feature is off, for this channel or altogether.
	ErrorNotAvailable = &Error{Code: 108, Message: "not available"}
	// ErrorTokenExpired: the token has expired, or is not valid yet. SDKs ask for a new one.
	ErrorTokenExpired = &Error{Code: 109, Message: "token expired"}
	// ErrorExpired: the right that a token grants has ended already.
	ErrorExpired = &Error{Code: 110, Message: "expired"}
	// ErrorTooManyRequests: too many reads wait for the engine (engine.concurrency), or a rate
	// limit of the application. Try again later.
	ErrorTooManyRequests = &Error{Code: 111, Message: "too many requests", Temporary: true}
	// ErrorUnrecoverablePosition: the stream of the position is gone: its epoch has changed.
	ErrorUnrecoverablePosition = &Error{Code: 112, Message: "unrecoverable position"}
	// ErrorConcurrentPagination: reserved; Gyro itself does not send it.
	ErrorConcurrentPagination = &Error{Code: 113, Message: "concurrent pagination", Temporary: true}
)

// Error implements error: a handler that returns a Disconnect, or a pointer to one, closes the connection with its code
// and reason.
func (d Disconnect) Error() string { return fmt.Sprintf("disconnect %d: %s", d.Code, d.Reason) }

// Is reports whether target is a Disconnect of the same code, or a pointer to one.
func (d Disconnect) Is(target error) bool {
	switch t := target.(type) {
	case Disconnect:
		return t.Code == d.Code
	case *Disconnect:
		return t != nil && t.Code == d.Code
	}
	return false
}

// As lets errors.As find a Disconnect by a pointer, and a pointer by a Disconnect.
func (d Disconnect) As(target any) bool { return as(d, target) }

// Terminal reports whether clients stay disconnected after this code.
func (d Disconnect) Terminal() bool {
	return d.Code >= 3500 && d.Code < 4000 || d.Code >= 4500 && d.Code < 5000
}

// Disconnects of the protocol. Codes from 4000 to 4499
// (clients reconnect) and 4500 to 4999 (they do not) are the application's; its
// reasons must not be empty, parse as JSON, or exceed 123 bytes.
var (
	// DisconnectConnectionClosed: the peer went away. Internal, never sent.
	DisconnectConnectionClosed = Disconnect{Code: 3000, Reason: "connection closed"}
	// DisconnectShutdown: the node shuts down.
	DisconnectShutdown = Disconnect{Code: 3001, Reason: "shutdown"}
	// DisconnectServerError: a handler or an engine failed.
	DisconnectServerError = Disconnect{Code: 3004, Reason: "internal server error"}
	// DisconnectExpired: the connection has expired, and the client did not refresh it in time.
	DisconnectExpired = Disconnect{Code: 3005, Reason: "connection expired"}
	// DisconnectSubExpired: a subscription that the server made has expired.
	DisconnectSubExpired = Disconnect{Code: 3006, Reason: "subscription expired"}
	// DisconnectSlow: the client reads more slowly than messages come: its queue is full.
	DisconnectSlow = Disconnect{Code: 3008, Reason: "slow"}
	// DisconnectWriteError: writing to the connection failed, or took too long.
	DisconnectWriteError = Disconnect{Code: 3009, Reason: "write error"}
	// DisconnectInsufficientState: a subscription that the server made has missed publications.
	DisconnectInsufficientState = Disconnect{Code: 3010, Reason: "insufficient state"}
	// DisconnectForceReconnect: for applications: the client shall connect again.
	DisconnectForceReconnect = Disconnect{Code: 3011, Reason: "force reconnect"}
	// DisconnectNoPong: the client did not answer a ping in time.
	DisconnectNoPong = Disconnect{Code: 3012, Reason: "no pong"}
	// DisconnectTooManyRequests: the client sends commands faster than they are done, or a rate
	// limit of the application.
	DisconnectTooManyRequests = Disconnect{Code: 3013, Reason: "too many requests"}
	// DisconnectStateInvalidated: for applications: the client shall drop its tokens and
	// positions, and connect again.
	DisconnectStateInvalidated = Disconnect{Code: 3014, Reason: "state invalidated"}
	// DisconnectInvalidToken: the token is not valid: its signature, form, issuer, audience, user
	// or channel.
	DisconnectInvalidToken = Disconnect{Code: 3500, Reason: "invalid token"}
	// DisconnectBadRequest: a message breaks the protocol, or a connection came without a token or
	// other credentials.
	DisconnectBadRequest = Disconnect{Code: 3501, Reason: "bad request"}
	// DisconnectStale: the client did not connect in time after it opened the connection.
	DisconnectStale = Disconnect{Code: 3502, Reason: "stale"}
	// DisconnectForceNoReconnect: the backend disconnected the client.
	DisconnectForceNoReconnect = Disconnect{Code: 3503, Reason: "force disconnect"}
	// DisconnectConnectionLimit: the user has too many connections.
	DisconnectConnectionLimit = Disconnect{Code: 3504, Reason: "connection limit"}
	// DisconnectChannelLimit: the server subscribes the connection to too many channels.
	DisconnectChannelLimit = Disconnect{Code: 3505, Reason: "channel limit"}
	// DisconnectInappropriateProtocol: a payload is not JSON and the connection is.
	DisconnectInappropriateProtocol = Disconnect{Code: 3506, Reason: "inappropriate protocol"}
	// DisconnectPermissionDenied: the connection is not permitted, for example one of no user.
	DisconnectPermissionDenied = Disconnect{Code: 3507, Reason: "permission denied"}
	// DisconnectNotAvailable: the client sent a message that is no command, and nothing handles such messages.
	DisconnectNotAvailable = Disconnect{Code: 3508, Reason: "not available"}
	// DisconnectTooManyErrors: for applications; Gyro itself does not send it.
	DisconnectTooManyErrors = Disconnect{Code: 3509, Reason: "too many errors"}
)

// Unsubscribes of the protocol. From code 2500 clients
// subscribe again. Codes below 2000 are internal and never sent.
var (
	// UnsubscribeClient: the client unsubscribed. Internal, never sent.
	UnsubscribeClient = Unsubscribe{Code: 0, Reason: "client unsubscribed"}
	// UnsubscribeDisconnect: the connection ended. Internal, never sent.
	UnsubscribeDisconnect = Unsubscribe{Code: 1, Reason: "client disconnected"}
	// UnsubscribeServer: the backend unsubscribed the client.
	UnsubscribeServer = Unsubscribe{Code: 2000, Reason: "server unsubscribe"}
	// UnsubscribeInsufficientState: the subscription has missed publications. The client
	// subscribes again, and recovers them.
	UnsubscribeInsufficientState = Unsubscribe{Code: 2500, Reason: "insufficient state"}
	// UnsubscribeExpired: the subscription has expired. The client subscribes again, with a new
	// token.
	UnsubscribeExpired = Unsubscribe{Code: 2501, Reason: "subscription expired"}
	// UnsubscribeStateInvalidated: for applications: the client shall drop its token and position
	// of the channel, and subscribe again.
	UnsubscribeStateInvalidated = Unsubscribe{Code: 2502, Reason: "state invalidated"}
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
