package inspect

import "time"

type Kind uint8

const (
	_ Kind = iota
	// Text is the transport.
	Connected
	// The connection has ended, with Code and Text as the client got them.
	Disconnected
	// The node refused something: Event.What names it, Text has the reason, Key is the setting that would allow it, and
	// Code the answer.
	Refused
	// Text is "server-side" if the server made the subscription, Count the source that the application gave.
	Subscribed
	// A subscription has ended before its connection, with Code and Text.
	Unsubscribed
	// A subscription got the Count publications that it had missed.
	Recovered
	// A subscription could not get the publications that it had missed. Text is Anew if the stream has begun anew;
	// otherwise the stream no longer has them, or they were too many.
	NotRecovered
	// Count bytes wait for a client, more than the limit. It is disconnected.
	Slow
	// The broker may have lost events of some channels, whose positions the node compares.
	Lost
	// A part of the node does not work, or works again. Event.What names the part, Text has the error, Count how often
	// the part has reconnected.
	Failing
	Working
	// The stream of Channel has begun anew, so no client can recover the publications before. Event.What is what showed
	// it: a "publication", a "check" of positions or a "recovery"; Text has the epochs. A node records it for all
	// clients, once per minute at most.
	NewEpoch
)

var kinds = [...]string{
	Connected: "connected", Disconnected: "disconnected", Refused: "refused", Subscribed: "subscribed",
	Unsubscribed: "unsubscribed", Recovered: "recovered", NotRecovered: "not_recovered", Slow: "slow",
	Lost: "lost", Failing: "failing", Working: "working", NewEpoch: "new_epoch",
}

// Anew is the text of events about a stream with another epoch.
const Anew = "the stream has begun anew"

// Recovery returns Recovered or NotRecovered.
func Recovery(ok bool) Kind {
	if ok {
		return Recovered
	}
	return NotRecovered
}

// By returns the text of Subscribed.
func By(serverSide bool) string {
	if serverSide {
		return "server-side"
	}
	return ""
}

// String returns the name of the kind in answers of the server: "connected", "not_recovered".
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return ""
}

// Event of a connection, of a channel or of a node. Texts are cut to 255 bytes.
type Event struct {
	// Time is exact to the turn of the loop. Events of one client are in their order.
	Time time.Time
	Node string
	Kind Kind
	// Client is the client's ID, Addr the peer's address; empty where not known.
	Client, User, Addr string
	Channel            string
	What, Text, Key    string
	Code               uint32
	Count              int
}

// Query selects events that match all fields that are not empty.
type Query struct {
	User, Client, Channel string
	// Nodes adds events that concern no client: Lost, Failing and Working, and NewEpoch of Channel. A query for a
	// channel alone selects its NewEpoch, too.
	Nodes bool
	Since time.Time
	// Limit is the most events, the latest ones; 0 for DefaultLimit. More than MaxLimit is an error.
	Limit int
}

// Log is the answer to a Query.
type Log struct {
	// Events in their order, the latest last.
	Events []Event
	// More: earlier events were left out because of the limit.
	More bool
	// From is since when no node has forgotten an event for want of memory; zero if none has forgotten any.
	From time.Time
}
