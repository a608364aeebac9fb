package observe

// Method of a command. Its text is the name in the client protocol.
type Method uint8

// Methods.
const (
	// MethodUnknown is for commands without a method; their connections are closed.
	MethodUnknown Method = iota
	// MethodPong is the answer to a ping.
	MethodPong
	MethodConnect
	MethodPing
	MethodSubscribe
	MethodUnsubscribe
	MethodPublish
	MethodPresence
	MethodPresenceStats
	MethodHistory
	MethodRPC
	MethodSend
	MethodRefresh
	MethodSubRefresh
	// NumMethods is the number of methods.
	NumMethods
)

var methods = [NumMethods]string{
	"unknown", "client_pong", "connect", "ping", "subscribe", "unsubscribe", "publish", "presence",
	"presence_stats", "history", "rpc", "send", "refresh", "sub_refresh",
}

func (m Method) String() string { return methods[m] }

// Limit that a client has reached. Its text suits a label.
type Limit uint8

// Limits.
const (
	// LimitChannelLength: a channel's name is too long (gyro.Config.ChannelMaxLength).
	LimitChannelLength Limit = iota
	// LimitChannels: the client has too many subscriptions (ChannelLimit).
	LimitChannels
	// LimitReply: a reply is too large (QueueMaxSize).
	LimitReply
	// LimitQueue: too much waits for a slow client, which is disconnected (QueueMaxSize).
	LimitQueue
	// LimitPending: a client has sent more than 1 MiB of commands that wait for others, and
	// is disconnected (CommandLimit).
	LimitPending
	// LimitConnections: the user has too many connections to the node
	// (UserConnectionLimit).
	LimitConnections
	// NumLimits is the number of limits.
	NumLimits
)

var limits = [NumLimits]string{
	"channel_length", "channels", "reply_size", "queue_size", "pending_size", "user_connections",
}

func (l Limit) String() string { return limits[l] }
