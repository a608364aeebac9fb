package inspect

import "time"

// Kind of event.
type Kind uint8

// Kinds of events.
const (
	_ Kind = iota
	// Connected: a client has connected. Text is its transport.
	Connected
	// Disconnected: the connection of a client has ended, with Code and Text as the client
	// got them.
	Disconnected
	// Refused: the node refused something. Event.What names it, Text has the reason, Key is the setting that would
	// allow it, and Code the answer.
	Refused
	// Subscribed: a subscription was established. Text is "server-side" if the server made it,
	// Count the source that the application gave.
	Subscribed
	// Unsubscribed: a subscription has ended before its connection, with Code and Text.
	Unsubscribed
	// Recovered: a subscription got the Count publications that it had missed.
	Recovered
	// NotRecovered: a subscription could not get the publications that it had missed. Text is Anew if the stream has
	// begun anew; otherwise the stream no longer has them, or they were too many.
	NotRecovered
	// Slow: Count bytes wait for a client, which is more than the limit. It is disconnected.
	Slow
	// Lost: the broker may have lost events of some channels. The node compares the positions
	// in them.
	Lost
	// Failing and Working: a part of the node does not work, or works again. Event.What names the part, Text has the
	// error, Count how often the part has reconnected.
	Failing
	Working
	// NewEpoch: the stream of Channel has begun anew, so no client can recover the publications before. Event.What
	// names the cause: a "publication", a "check" of positions or a "recovery" showed the new epoch to the node; Text
	// has the epochs. A node records it once for all clients, and again after a minute at the earliest.
	NewEpoch
)

var kinds = [...]string{
	Connected: "connected", Disconnected: "disconnected", Refused: "refused", Subscribed: "subscribed",
	Unsubscribed: "unsubscribed", Recovered: "recovered", NotRecovered: "not_recovered", Slow: "slow",
	Lost: "lost", Failing: "failing", Working: "working", NewEpoch: "new_epoch",
}

// Anew is the text of events of subscriptions whose stream has another epoch than they had.
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
	// Time of the event, exact to the turn of the loop. Events of one client are in their order.
	Time time.Time
	// Node is the UID of the node.
	Node string
	Kind Kind
	// Client is the client's ID, User its user, Addr the peer's address; empty where they are not known.
	Client, User, Addr string
	Channel            string
	// What, Text, Key, Code and Count are explained at the kinds.
	What, Text, Key string
	Code            uint32
	Count           int
}

// Query selects events: the ones that match all fields that are not empty.
type Query struct {
	User, Client, Channel string
	// Nodes selects events that concern no client: Lost, Failing and Working, and NewEpoch of Channel. They come in
	// addition to the events that the other fields select. A query for a channel alone selects its NewEpoch, too.
	Nodes bool
	// Since is the earliest time.
	Since time.Time
	// Limit is the most events of the answer, which are the latest; 0 for DefaultLimit. More than
	// MaxLimit is an error.
	Limit int
}

// Log is the answer to a Query.
type Log struct {
	// Events in their order, the latest last.
	Events []Event
	// More tells that earlier events were left out because of the limit.
	More bool
	// From is the time since when no node has forgotten an event for want of memory; zero if no node has forgotten any.
	From time.Time
}
