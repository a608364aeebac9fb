// Package observe is what a node tells a program about its clients, for metrics and
// traces: gyro.Config.Observer takes an Observer.
//
// What can happen very often is counted by the node's loops, each for itself, and handed
// over once per turn. Deliveries of publications are only added up.
package observe

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Observer of a node. A nil function is not called. A panic of Turn is logged; one of
// Effect counts as a panic of the handler.
type Observer struct {
	// Turn is called by a loop of the node at the end of each turn in which there was
	// something to count, and in the midst of it when a list of t is full. All clients
	// of the loop wait for it, so it must not block. Loops call it concurrently. t is
	// valid during the call, and used again afterwards.
	Turn func(t *Turn)
	// Effect is called when a handler or an engine is about to be called on behalf of a
	// client, and the function that it returns when that is done, with the error. The
	// handler gets the returned context: a tracer begins a span with the one and ends it
	// with the other. Both are called on the goroutine that does the effect: on the
	// client's loop if e is Inline, which then must not be blocked, and else on any. Only
	// with this function set are effects measured at all. The context must be ctx or
	// derived from it; the function may be nil.
	Effect func(ctx context.Context, e Effect) (_ context.Context, done func(err error))
}

// Effect is a call of a handler or of an engine, on behalf of a client.
type Effect struct {
	// Name is that of a field of gyro.Handlers, or else says what an engine does:
	// "attach" (it subscribes, adds presence and reads what is needed of the stream),
	// "detach" (it undoes that), "renew" (presence), "join" (it publishes one). The effects
	// Publish, Presence, PresenceStats and History are the handler's call and the engine's.
	Name string
	// Client that it is for. It is valid beyond the call.
	Client Client
	// Channel, if the effect has exactly one.
	Channel string
	// Inline tells that the effect runs on the loop. The error gyro.ErrWouldBlock says
	// that it is tried again beside it.
	Inline bool
}

// Client of an effect. Any goroutine may use it.
type Client interface {
	// ID is a random UUID. UserID is empty for anonymous clients, and before the client
	// has connected.
	ID() string
	UserID() string
}

// Turn is what a loop has counted since it last called Observer.Turn.
type Turn struct {
	// Transports are those by which something came, in no order.
	Transports []Transport
	// Commands are those that were answered, one by one. A command whose connection ended
	// instead is none of them; nor are messages without an answer.
	Commands []Command
	// Disconnects are the ends of connections, whoever wanted them, and Unsubscribes the
	// ends of subscriptions that the server told its clients of.
	Disconnects  []Disconnect
	Unsubscribes []Unsubscribe
	// Refusals counts how often a limit was reached, by Limit.
	Refusals [NumLimits]int
	// Subscribed and Unsubscribed count subscriptions that came and went; those that were
	// not established in the end are among both.
	Subscribed, Unsubscribed int
	// Deliveries counts publications, joins and leaves, once for each subscription that
	// they came to. The subscription may have left them out (a filter, its position).
	Deliveries int
	// Bytes is how much transports took from their clients' queues.
	Bytes int
}

// Transport counts what came by one kind of connection.
type Transport struct {
	// Name as in gyro.TransportInfo.
	Name     string
	Encoding protocol.Encoding
	// Accepted connections.
	Accepted int
	// Received commands, by Method.
	Received [NumMethods]int
}

// Command that was answered.
type Command struct {
	Method Method
	// Code of the error; 0 for success.
	Code uint32
	// Took is the time from its arrival at the loop to its answer.
	Took time.Duration
}

// Disconnect counts connections that ended in the same manner.
type Disconnect struct {
	// Disconnect is protocol.DisconnectConnectionClosed if the client went, and zero after
	// the connect command was answered with an error.
	Disconnect protocol.Disconnect
	// Transport is Transport.Name.
	Transport string
	Count     int
}

// Unsubscribe counts subscriptions that the server ended.
type Unsubscribe struct {
	Code  uint32
	Count int
}
