package observe

// Method of a command. Its text is the name of the client protocol.
type Method uint8

// Methods.
const (
	// MethodUnknown are commands without any method; their connections are closed.
	MethodUnknown Method = iota
	// MethodPong are the answers to pings.
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
	// NumMethods is their number.
	NumMethods
)

var methods = [NumMethods]string{
	"unknown", "client_pong", "connect", "ping", "subscribe", "unsubscribe", "publish", "presence",
	"presence_stats", "history", "rpc", "send", "refresh", "sub_refresh",
}

func (m Method) String() string { return methods[m] }

// Limit that refused something to a client. Its text suits a label.
type Limit uint8

// Limits.
const (
	// LimitChannelLength: a channel's name is too long (gyro.Config.ChannelMaxLength).
	LimitChannelLength Limit = iota
	// LimitChannels: the client has too many subscriptions (ChannelLimit).
	LimitChannels
	// LimitReply: a reply is too large (QueueMaxSize).
	LimitReply
	// LimitQueue: a slow client is disconnected, because of what waits for it
	// (QueueMaxSize).
	LimitQueue
	// LimitPending: a client is disconnected that sent more than 1 MiB while its commands
	// wait for others (CommandLimit).
	LimitPending
	// LimitConnections: the user has too many connections to the node
	// (UserConnectionLimit).
	LimitConnections
	// NumLimits is their number.
	NumLimits
)

var limits = [NumLimits]string{
	"channel_length", "channels", "reply_size", "queue_size", "pending_size", "user_connections",
}

func (l Limit) String() string { return limits[l] }
