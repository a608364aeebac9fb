// Package observe has the counts and events of a node's clients, for metrics and traces: see gyro.Config.Observer. Each
// loop counts for itself, and hands its counts over once per turn (Turn). Events elsewhere are added to Totals, which
// can be read at any time.
package observe

import (
	"context"
	"time"

	"github.com/gyrohq/gyro/protocol"
	"github.com/gyrohq/gyro/refusal"
)

// Observer of a node. Nil functions are not called. A panic of Turn is logged; one of Effect counts as a panic of the
// handler.
type Observer struct {
	// Turn is called by each loop, concurrently, at the end of a turn with new counts, and earlier if a list of t is
	// full. All clients of the loop wait for it, so it must not block. t is valid during the call only.
	Turn func(t *Turn)
	// Effect is called before a handler or an engine is called for a client, which gets the returned context: ctx or one
	// derived from it. done, which may be nil, is called afterwards. A tracer begins a span in Effect and ends it in
	// done. Both are called on the goroutine of the effect: if e is Inline it is the client's loop, and they must not
	// block.
	Effect func(ctx context.Context, e Effect) (_ context.Context, done func(err error))
	// Totals, if it is not nil, counts events that do not happen on loops. The node adds to it; any goroutine may read
	// it.
	Totals *Totals
	// Refused is called for each refusal, before it is written to the log, which leaves out repeated lines. It may
	// change the refusal: to name the program's own setting in place of a field of gyro.Config, for example. Any
	// goroutine calls it, also loops, so it must not block. Handlers' answers with codes of the application are refusals
	// only if refusal.Because made them.
	Refused func(f *refusal.Refusal)
	// Namespace, if it is not nil, returns the namespace of a channel. Counts are kept for each text that it has
	// returned, so there must be few: names that the program knows, and an empty text for all other channels. Any
	// goroutine calls it, also loops, some times per publication, so it must not block.
	Namespace func(channel string) string
	// ClientNames are the names of software that counts tell apart (Agent), 63 at most. Other clients are counted
	// together.
	ClientNames []string
	// ClientLabels, if it is not nil, makes counts for each combination of the values of clients' labels.
	ClientLabels *ClientLabels
	// Polled is called for each event of shared poll channels, such as a call of channel.SharedPoll.Poll, on goroutines
	// of the node. It must not block.
	Polled func(p *Polled)
}

// Effect is a call of a handler or of an engine, on behalf of a client.
type Effect struct {
	// Name is a field of gyro.Handlers, or an action of an engine: "attach" (subscribe, add presence, read the needed
	// part of the stream), "detach" (undo that), "renew" (renew presence), "join" (publish a join). The effects Publish,
	// Presence, PresenceStats and History comprise the calls of the handler and of the engine.
	Name string
	// Client caused the call. It is valid beyond the call.
	Client Client
	// Channel, if the effect has just one, and Method of an RPC.
	Channel, Method string
	// Inline: the effect runs on the client's loop. If it ends with gyro.ErrWouldBlock, it is tried again on a
	// goroutine.
	Inline bool
}

// Client of an effect. Any goroutine may use it.
type Client interface {
	// ID is a random UUID. UserID is empty for anonymous clients, and before the client has connected.
	ID() string
	UserID() string
}

// Turn has the counts of a loop since its last call of Observer.Turn. What grows and shrinks is counted as additions and
// removals: the difference of the sums over all turns is the number of now.
type Turn struct {
	// Transports with counts, in no order.
	Transports []Transport
	// Commands that were answered, but for those whose connection ended before.
	Commands   []Command
	Pongs      []Pong
	Recoveries []Recovery
	// Disconnects are all ends of connections. Unsubscribes are the ends of subscriptions that the server has announced
	// to clients.
	Disconnects  []Disconnect
	Unsubscribes []Unsubscribe
	Refusals     [NumLimits]int
	// Connections are the clients that have connected, and those of them that have gone. Subscriptions likewise.
	Connections   []Connections
	Subscriptions []Subscriptions
	// Deliveries counts publications, joins and leaves, once for each subscription that they reach, also if it skips
	// them (because of a filter or its position).
	Deliveries int
	// Filtered are publications that subscriptions skipped because of a tags filter.
	Filtered []Filtered
	// Lags are the ages of publications, by the broker's time, when the loop takes them, in whole milliseconds;
	// publications without a time are left out. Broadcasts are the times of deliveries: from the turn that begins to
	// deliver a publication, after a batching window, to the end of the turn that writes it to the last subscriber of
	// the loop. Each loop with subscribers reports a publication once in both. Writes are the times from the publish, by
	// the time of the publication, to the end of the same turn, up to a millisecond too long, with the wait in batching
	// windows and without the wait for slow clients (Load). Times of other nodes are corrected by Load.ClockSkew.
	Lags, Broadcasts, Writes []Timing
	Bytes                    int
}

// Transport counts the connections of one kind, and their messages in the channels of a namespace.
type Transport struct {
	// Name as in gyro.TransportInfo.
	Name      string
	Encoding  protocol.Encoding
	Namespace string
	// Accepted connections, counted before their clients send anything.
	Accepted int
	// Sent are messages queued for clients, Received commands and pongs, by Message. The size of a one-way client's
	// connect request is only known if it came as a message.
	Sent, Received [NumMessages]Traffic
}

// Connections counts the clients whose connect command succeeded, and the ends of their connections.
type Connections struct {
	Transport string
	// HTTP is 1, 2 or 3 for the request that opened the connections; 0 for others.
	HTTP                    uint8
	Agent                   Agent
	Connected, Disconnected int
}

// Subscriptions counts the subscriptions that were established, and their ends for any reason.
type Subscriptions struct {
	Namespace                string
	Agent                    Agent // of the client
	Subscribed, Unsubscribed int
}

// Filtered counts publications that subscriptions skipped.
type Filtered struct {
	Namespace string
	Count     int
}

// Traffic is a number of messages and their size before the transport compresses and frames them, without line breaks
// between them in JSON and with the lengths before them in Protobuf.
type Traffic struct{ Messages, Bytes int }

// Command that was answered.
type Command struct {
	Method    Message
	Namespace string
	Code      uint32
	// Took is from the command's arrival at the loop to its answer.
	Took time.Duration
}

// Pong is an answer to a ping.
type Pong struct {
	Transport string
	// Took is from the ping, measured from turn to turn.
	Took time.Duration
}

// Recovery is an attempt to recover.
type Recovery struct {
	Namespace string
	// Recovered: the client got all that it missed.
	Recovered    bool
	Publications int
}

// Timing is a time that was measured Count times, with publications in channels of a namespace.
type Timing struct {
	Namespace string
	Took      time.Duration
	Count     int
}

// Disconnect counts connections that ended for the same reason.
type Disconnect struct {
	// Disconnect is protocol.DisconnectConnectionClosed if the client ended the connection, and zero if its connect
	// command failed.
	Disconnect protocol.Disconnect
	Transport  string
	Count      int
}

// Unsubscribe counts subscriptions that the server ended.
type Unsubscribe struct {
	Namespace string
	Code      uint32
	Count     int
}

// Load is the data that waits in a node, and how far its clock is off: gyro.Inspector.Load.
type Load struct {
	// QueuedClients have not taken all that was sent to them. QueuedBytes wait for them together, LargestQueue for one
	// of them, since OldestQueued at most. Bytes in the kernel or in a TLS connection do not count.
	QueuedClients, QueuedBytes, LargestQueue int
	OldestQueued                             time.Duration
	// ClockSkew is how far the clock of the node is ahead of the median of the cluster's nodes, negative if it is
	// behind, to about a millisecond in a data centre; 0 for a node without others.
	ClockSkew time.Duration
}
