package client

import (
	"fmt"
	"time"

	"github.com/gyrohq/gyro/protocol"
)

// Types of the protocol that programs meet.
type (
	// ClientInfo identifies the client that published, joined or is present: the User, the ID of the Client, and the
	// ConnInfo and ChanInfo that the application has given. See "go doc github.com/gyrohq/gyro/protocol.ClientInfo".
	ClientInfo = protocol.ClientInfo
	// StreamPosition is a place in a channel's stream: the Offset, which counts within the Epoch. See "go doc github.com/gyrohq/gyro/protocol.StreamPosition".
	StreamPosition = protocol.StreamPosition
	// FilterNode is a filter of publications by their tags: a comparison of the tag Key by Cmp with Val or Vals, or an Op over
	// Nodes; Excess is for servers. See docs/bandwidth.md and
	// "go doc github.com/gyrohq/gyro/protocol.FilterNode".
	FilterNode = protocol.FilterNode
)

// State of a Client.
type State uint8

// States of a Client.
const (
	// Disconnected: there is no connection, and no attempt to make one.
	Disconnected State = iota
	// Connecting: the client tries to connect, again and again.
	Connecting
	// Connected: the server has accepted the connection.
	Connected
)

// String is the name of the state in lower case.
func (s State) String() string { return [...]string{"disconnected", "connecting", "connected"}[s] }

// SubscriptionState is the state of a Subscription.
type SubscriptionState uint8

// States of a Subscription.
const (
	// Unsubscribed: the client is not subscribed, and does not try to be.
	Unsubscribed SubscriptionState = iota
	// Subscribing: the client subscribes as soon as it can, again and again.
	Subscribing
	// Subscribed: the server has accepted the subscription.
	Subscribed
)

// String is the name of the state in lower case.
func (s SubscriptionState) String() string {
	return [...]string{"unsubscribed", "subscribing", "subscribed"}[s]
}

// Reason is why a state was entered: the code that the server has given (docs/codes.md), or below 2000 one of this package.
type Reason struct {
	Code uint32
	Text string
}

// Error is the text of the reason, with its code.
func (r Reason) Error() string { return fmt.Sprintf("%d %s", r.Code, r.Text) }

// Reasons of this package, by state: Connecting, Disconnected, Subscribing and Unsubscribed.
var (
	ConnectCalled    = Reason{0, "connect called"}
	TransportClosed  = Reason{1, "transport closed"} // Subscribing too
	NoPing           = Reason{2, "no ping"}
	SubscribeTimeout = Reason{3, "subscribe timeout"}
	UnsubscribeError = Reason{4, "unsubscribe error"}

	DisconnectCalled = Reason{0, "disconnect called"}
	Unauthorized     = Reason{1, "unauthorized"} // Unsubscribed too
	BadProtocol      = Reason{2, "bad protocol"}
	MessageSizeLimit = Reason{3, "message size limit"}

	SubscribeCalled = Reason{0, "subscribe called"}
	BadDelta        = Reason{2, "bad delta"}

	UnsubscribeCalled = Reason{0, "unsubscribe called"}
	ClientClosed      = Reason{2, "client closed"}
)

// Event of a Client or a Subscription: one of the types of this package that end with Event.
type Event interface{ event() }

type (
	// ConnectingEvent: the client begins to connect, or the connection was lost, by Err if that is known. NextAttempt is
	// as Client.NextAttempt: zero if it is made at once.
	ConnectingEvent struct {
		Reason      Reason
		Err         error
		NextAttempt time.Time
	}
	// ConnectedEvent: the server has accepted the connection. Data comes from the application.
	ConnectedEvent struct {
		Client, Version string // ID of the connection, and version of the server
		Data            []byte
		Transport       string // its name, such as websocket
	}
	// DisconnectedEvent: the client will not connect before Connect is called again. Err is the cause, if known.
	DisconnectedEvent struct {
		Reason Reason
		Err    error
	}
	// ErrorEvent: an attempt to connect, to subscribe or to get a token has failed; another one follows. Channel is the
	// subscription's, or empty. Err has Code and Message as an *Error, and the cause if known. NextAttempt is as
	// Client.NextAttempt after an attempt to connect, else zero.
	ErrorEvent struct {
		Channel     string
		Code        uint32
		Message     string
		Err         error
		NextAttempt time.Time
	}
	// MessageEvent: the server sent a message to this connection.
	MessageEvent struct{ Data []byte }

	// SubscribingEvent: the client begins to subscribe, or the subscription was lost.
	SubscribingEvent struct {
		Channel string
		Reason  Reason
	}
	// SubscribedEvent: the server has accepted the subscription. WasRecovering: it should have continued an earlier one.
	// Recovered: nothing is missing in between.
	SubscribedEvent struct {
		Channel                  string
		Positioned, Recoverable  bool
		WasRecovering, Recovered bool
		Position                 StreamPosition // of Positioned; of a Poll, its epoch alone
		Data                     []byte         // of the application
	}
	// GapEvent: publications after From, up to To, are missing. It follows a SubscribedEvent whose WasRecovering is set
	// and whose Recovered is not: the server has them no more. With Unread it replaces publications, joins and leaves
	// that the iterator had no room for (Options.Buffer). From and To are zero then if the channel is not recoverable,
	// and Channel is empty for messages and, if there are more than 256, for some channels.
	GapEvent struct {
		Channel  string
		From, To StreamPosition
		Unread   bool
	}
	// UnsubscribedEvent: the client will not subscribe before Subscribe is called again.
	UnsubscribedEvent struct {
		Channel string
		Reason  Reason
	}
	// StateEvent has all entries of a Map, in the order of their keys. It replaces all earlier ones.
	StateEvent struct {
		Channel string
		Entries []Publication
	}
	// PublicationEvent is a publication: a change of a Map, a value of a Poll.
	PublicationEvent struct{ Publication }
	// JoinEvent: a client has subscribed to the channel.
	JoinEvent struct {
		Channel string
		Info    ClientInfo
	}
	// LeaveEvent: a client has left the channel.
	LeaveEvent struct {
		Channel string
		Info    ClientInfo
	}
)

// Publication in a channel.
type Publication struct {
	// Channel of the publication. It differs from the subscription's channel if that is a pattern.
	Channel string
	// Data is the payload: JSON, or any bytes with Protobuf.
	Data []byte
	// Offset in the stream; 0 if the publication is in none.
	Offset uint64
	// Info tells which client published; nil: the application did.
	Info *ClientInfo
	Tags map[string]string
	// Key of a map or of shared poll; empty in streams. Removed: it is gone. Score is its rank in a map with an order,
	// Version the version of the value, if the publisher has given one.
	Key     string
	Removed bool
	Score   int64
	Version uint64
}

func (ConnectingEvent) event()   {}
func (ConnectedEvent) event()    {}
func (DisconnectedEvent) event() {}
func (ErrorEvent) event()        {}
func (MessageEvent) event()      {}
func (SubscribingEvent) event()  {}
func (SubscribedEvent) event()   {}
func (GapEvent) event()          {}
func (UnsubscribedEvent) event() {}
func (StateEvent) event()        {}
func (PublicationEvent) event()  {}
func (JoinEvent) event()         {}
func (LeaveEvent) event()        {}

// String has the fields as %+v, with the payload as text.
func (p Publication) String() string {
	return fmt.Sprintf("{Channel:%s Data:%s Offset:%d Info:%v Tags:%v Key:%s Removed:%t Score:%d Version:%d}",
		p.Channel, p.Data, p.Offset, p.Info, p.Tags, p.Key, p.Removed, p.Score, p.Version)
}

// String has the fields as %+v, with the payload as text.
func (e MessageEvent) String() string { return fmt.Sprintf("{Data:%s}", e.Data) }

// String has the fields as %+v, with the payload as text.
func (e ConnectedEvent) String() string {
	return fmt.Sprintf("{Client:%s Version:%s Data:%s Transport:%s}", e.Client, e.Version, e.Data, e.Transport)
}

// String has the fields as %+v, with the payload as text.
func (e SubscribedEvent) String() string {
	return fmt.Sprintf("{Channel:%s Positioned:%t Recoverable:%t WasRecovering:%t Recovered:%t Position:%+v Data:%s}",
		e.Channel, e.Positioned, e.Recoverable, e.WasRecovering, e.Recovered, e.Position, e.Data)
}

func errorEvent(channel string, e *Error) ErrorEvent {
	return ErrorEvent{Channel: channel, Code: e.Code, Message: e.Message, Err: e}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
