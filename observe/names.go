package observe

import "github.com/gyrohq/gyro/protocol"

// Message is the type of a message between a client and its node, with the text of the labels "method" and "frame_type".
type Message uint8

// A command and its reply are of the type Message(protocol.Method), also for methods without a name here.
const (
	// MessageUnknown cannot be decoded, or is a command without a method.
	MessageUnknown       = Message(protocol.NoMethod)
	MessageConnect       = Message(protocol.MethodConnect)
	MessageSubscribe     = Message(protocol.MethodSubscribe)
	MessageUnsubscribe   = Message(protocol.MethodUnsubscribe)
	MessagePublish       = Message(protocol.MethodPublish)
	MessagePresence      = Message(protocol.MethodPresence)
	MessagePresenceStats = Message(protocol.MethodPresenceStats)
	MessageHistory       = Message(protocol.MethodHistory)
	MessageRPC           = Message(protocol.MethodRPC)
	MessageSend          = Message(protocol.MethodSend)
	MessageRefresh       = Message(protocol.MethodRefresh)
	MessageSubRefresh    = Message(protocol.MethodSubRefresh)
)

// Messages without a method.
const (
	// Pings and pongs of the node, not of the transport.
	MessageServerPing = Message(protocol.NumMethods) + iota
	MessageClientPong
	// MessagePushConnect is the reply to the connect request of a one-way client.
	MessagePushConnect
	MessagePushSubscribe
	MessagePushPublication
	MessagePushJoin
	MessagePushLeave
	MessagePushUnsubscribe
	MessagePushMessage
	MessagePushRefresh
	MessagePushDisconnect
	NumMessages
)

var withoutMethod = [NumMessages - MessageServerPing]string{
	"server_ping", "client_pong", "push_connect", "push_subscribe", "push_publication", "push_join", "push_leave",
	"push_unsubscribe", "push_message", "push_refresh", "push_disconnect",
}

func (m Message) String() string {
	switch {
	case m == MessageUnknown:
		return "unknown"
	case m < MessageServerPing:
		return protocol.Method(m).String()
	}
	return withoutMethod[m-MessageServerPing]
}

// Agent says which software a client has named in its connect command: whether it gave a name and a version, and which
// name of Observer.ClientNames, and by a number of Observer.ClientLabels its labels. Other names are not kept.
type Agent uint16

const (
	agentNamed Agent = 1 << iota
	agentVersioned
	agentRegistered                        // the number of the registered name, from 1 on, has 6 bits from this one on
	agentLabels     = agentRegistered << 6 // and the number of the labels the rest
)

// MaxClientNames is how many names Observer.ClientNames can have.
const MaxClientNames = 63

// NewAgent returns the Agent of a client with a name, a version and labels.
func (o *Observer) NewAgent(name, version string, labels map[string]string) (a Agent) {
	a = Agent(o.ClientLabels.number(labels)) * agentLabels
	if name != "" {
		a |= agentNamed
	}
	if version != "" {
		a |= agentVersioned
	}
	for i, known := range o.ClientNames {
		if i < MaxClientNames && known == name && name != "" {
			return a | Agent(i+1)*agentRegistered
		}
	}
	return a
}

// Name is the label "client_name". registered is Observer.ClientNames.
func (a Agent) Name(registered []string) string {
	switch i := int(a % agentLabels / agentRegistered); {
	case i > 0 && i <= len(registered):
		return registered[i-1]
	case a&agentNamed != 0:
		return "unregistered"
	}
	return "unnamed"
}

// Version is the label "client_version".
func (a Agent) Version() string {
	if a&agentVersioned == 0 {
		return "unversioned"
	}
	return "unregistered"
}

// Event is a kind of messages between nodes by their engines, with the text of the label "type".
type Event uint8

const (
	EventPublication Event = iota
	EventJoin
	EventLeave
	EventControl
	// A change of a map that sets an entry, and one that removes it.
	EventMapPublication
	EventMapRemoval
	NumEvents
)

var events = [NumEvents]string{"publication", "join", "leave", "control", "map_publication", "map_removal"}

func (e Event) String() string { return events[e] }

// Action of a node that uses its engines or other nodes, with the text of the label "action".
type Action uint8

const (
	// These two count channels.
	ActionBrokerSubscribe Action = iota
	ActionBrokerUnsubscribe
	// Renewals count, too.
	ActionAddPresence
	ActionRemovePresence
	ActionPresence
	ActionPresenceStats
	// ActionHistory is a read for a client or the program. Reads for subscriptions are ActionHistoryRecover and
	// ActionHistoryRecoverCache, by the mode, if the client recovers, else ActionHistoryStreamTop, as are checks of
	// positions.
	ActionHistory
	ActionHistoryRecover
	ActionHistoryRecoverCache
	ActionHistoryStreamTop
	ActionHistoryRemove
	ActionSurvey
	// Suppressed changes count, too.
	ActionMapPublish
	ActionMapRemove
	ActionMapClear
	// Reads of a page of a map, of its changes for a subscriber that catches up, and of the number of its entries.
	ActionMapStateRead
	ActionMapStreamRead
	ActionMapStats
	NumActions
)

var actions = [NumActions]string{
	"broker_subscribe", "broker_unsubscribe", "add_presence", "remove_presence", "presence", "presence_stats", "history",
	"history_recover", "history_recover_cache", "history_stream_top", "history_remove", "survey",
	"map_publish", "map_remove", "map_clear", "map_state_read", "map_stream_read", "map_stats",
}

func (a Action) String() string { return actions[a] }

// Limit that a client has reached, with the text of a label.
type Limit uint8

const (
	// A channel's name is too long (gyro.Config.ChannelMaxLength).
	LimitChannelLength Limit = iota
	// The client has too many subscriptions (ChannelLimit).
	LimitChannels
	// A reply is too large (QueueMaxSize).
	LimitReply
	// Too much waits for a slow client, which is disconnected (QueueMaxSize).
	LimitQueue
	// A client has sent more than 1 MiB of commands that wait for others, and is disconnected (CommandLimit).
	LimitPending
	// The user has too many connections to the node (UserConnectionLimit).
	LimitConnections
	// A publication, join or leave was left out for a client with JSON, because it is not JSON (ChannelOptions.Binary).
	LimitFormat
	NumLimits
)

var limits = [NumLimits]string{
	"channel_length", "channels", "reply_size", "queue_size", "pending_size", "user_connections", "format",
}

func (l Limit) String() string { return limits[l] }
