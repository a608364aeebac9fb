// Package protocol has the messages of the client protocol (docs/client-protocol.md), and its codes (docs/codes.md):
// the language of clients and server, over any transport.
//
// A connection sends Commands and gets Replies: each answers a command, or holds a Push. Errors
// answer commands, a Disconnect ends a connection, an Unsubscribe a subscription; each has its
// code. Handlers return these values, and errors.Is and errors.As find them in wrapped errors.
//
// The messages are generated from client.proto. Package codec encodes them. A message has no lock:
// several goroutines may read it, and none of them while one modifies it.
package protocol
